// SPDX-License-Identifier: Apache-2.0
#include "tests/support/dump_fixture.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"
#include "core/tensor/tensor_stats.h"
#include "core/trace/program_records.h"
#include "tests/support/element_codec.h"
#include "tests/support/fixture_manifest.h"

namespace repro_check::test_support {
namespace {

using nlohmann::ordered_json;

core::InputWatch parse_watch(const std::string& name) {
  if (name.empty()) return core::InputWatch::kNotWatched;
  if (name == "steady") return core::InputWatch::kSteady;
  if (name == "moved") return core::InputWatch::kMoved;
  refuse("unknown watch " + name);
}

core::ContentState parse_state(const std::string& name) {
  using State = core::ContentState;
  for (const State state : {State::kHashed,
                            State::kUninitialised,
                            State::kNone,
                            State::kUndefined,
                            State::kComposite,
                            State::kExcluded}) {
    if (name == core::content_state_name(state)) return state;
  }
  refuse("unknown state " + name);
}

/// A tensor as described, before it is used as an argument or a result.
struct TensorModel {
  core::TensorRecord record;
  std::string storage;
  bool may_store = true;
  bool damaged = false;
  std::vector<std::byte> bytes;
  std::vector<std::pair<std::string, std::string>> parts;  ///< ending and name of each
};

struct StorageState {
  std::int64_t number = -1;
  std::int64_t producer = core::kNoProducer;
  std::string name;
};

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

class FixtureParser {
 public:
  explicit FixtureParser(const ordered_json& root) : root_(root) {}

  DumpFixture parse() {
    fixture_.manifest = parse_manifest(root_.value("manifest", ordered_json::object()));
    fixture_.manifest.run_name = root_.value("run", "run");
    keep_bytes_ = fixture_.manifest.trace.level == "tensor";
    keep_stats_ = fixture_.manifest.trace.level != "digest";
    counts_ = root_.value("counts", true);
    const ordered_json tensors = root_.value("tensors", ordered_json::object());
    for (const auto& [name, json] : tensors.items()) {
      tensors_[name] = parse_tensor(name, json);
    }
    for (const auto& json : root_.value("named", ordered_json::array())) parse_named(json);
    for (const auto& json : root_.value("ops", ordered_json::array())) enter_op(json);
    close_down_to(-1);
    summarise();
    return std::move(fixture_);
  }

 private:
  TensorModel parse_tensor(const std::string& name, const ordered_json& json) {
    TensorModel model;
    core::TensorRecord& record = model.record;
    const std::string word = json.value("dtype", "float32");
    const auto dtype = core::parse_dtype(word);
    if (!dtype && word != "unknown") refuse("unknown dtype of tensor " + name);
    record.dtype = dtype.value_or(core::Dtype::kUnknown);
    const ordered_json parts = json.value("parts", ordered_json::object());
    for (const auto& [ending, part] : parts.items()) {
      model.parts.emplace_back(ending, part.get<std::string>());
    }
    record.shape = json.value("shape", std::vector<std::int64_t>{});
    record.strides = json.value("strides", row_major(record.shape));
    record.storage_offset = json.value("offset", std::int64_t{0});
    record.device = json.value("device", "cpu");
    record.layout = json.value("layout", "strided");
    record.attributes = json.value("attributes", "");
    record.requires_grad = json.value("requires_grad", false);
    record.watch = parse_watch(json.value("watch", ""));
    record.name = json.value("name", "");
    record.state = parse_state(json.value("state", "hashed"));
    model.storage = json.value("storage", name);
    model.may_store = json.value("stored", true);
    model.damaged = json.value("damaged", false);
    // Of memory written in part there is a digest of what was written.
    const bool in_part =
        record.state == core::ContentState::kUninitialised && json.contains("values");
    if (record.state == core::ContentState::kHashed || in_part) fill_content(name, json, model);
    return model;
  }

  void fill_content(const std::string& name, const ordered_json& json, TensorModel& model) {
    core::TensorRecord& record = model.record;
    const auto count = static_cast<std::size_t>(core::element_count(record.shape));
    if (json.contains("fill")) {
      for (std::size_t i = 0; i < count; ++i) {
        append_value(record.dtype, nlohmann::json(json["fill"]), model.bytes);
      }
    } else if (json.contains("bits")) {
      for (const auto& bits : json["bits"]) append_bits(record.dtype, bits, model.bytes);
    } else if (json.contains("values")) {
      for (const auto& value : json["values"]) append_value(record.dtype, value, model.bytes);
    }
    if (model.bytes.size() != count * core::element_size(record.dtype)) {
      refuse("tensor " + name + " does not have as many elements as its shape says");
    }
    record.digest = core::digest_bytes(model.bytes);
    const bool real = core::is_floating(record.dtype) || core::is_integral(record.dtype);
    if (keep_stats_ && real && record.dtype != core::Dtype::kFloat4E2M1FNX2) {
      record.stats = statistics(record.dtype, model.bytes);
    } else if (counts_) {
      record.counted = core::count_leaf(record.dtype, model.bytes).counts;
    }
  }

  TensorModel& find(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse("no tensor called " + name);
    return found->second;
  }

  StorageState& storage_of(const TensorModel& model) {
    StorageState& storage = storages_[model.storage];
    if (storage.number < 0) storage.number = next_storage_++;
    return storage;
  }

  void keep(const TensorModel& model, bool op_stores, core::TensorRecord& record) {
    if (!keep_bytes_ || !model.may_store || !op_stores) return;
    if (record.state != core::ContentState::kHashed) return;
    record.stored = true;
    std::vector<std::byte> bytes = model.bytes;
    if (model.damaged && !bytes.empty()) bytes.back() ^= std::byte{1};
    fixture_.contents.emplace(record.content_key(), std::move(bytes));
  }

  void parse_named(const ordered_json& json) {
    const std::string kind = json.at("kind");
    core::NamedTensor named;
    named.kind = kind == "input"    ? core::NamedTensorKind::kInput
                 : kind == "buffer" ? core::NamedTensorKind::kBuffer
                                    : core::NamedTensorKind::kParameter;
    named.name = json.at("name");
    TensorModel& model = find(json.at("tensor"));
    named.dtype = model.record.dtype;
    named.shape = model.record.shape;
    named.digest = model.record.digest;
    fixture_.manifest.named_tensors.push_back(named);
    storages_[model.storage].name = (kind == "input" ? "input:" : "state:") + named.name;
  }

  /// The value that stands for a tensor argument, whose record it appends.
  core::Value add_tensor(core::OpRecord& op,
                         core::TensorRole role,
                         const std::string& slot,
                         const std::string& name,
                         const ordered_json& json) {
    TensorModel& model = find(name);
    const StorageState& storage = storage_of(model);
    core::TensorRecord record = model.record;
    record.role = role;
    const bool steady = record.watch == core::InputWatch::kSteady;
    if (role == core::TensorRole::kOutput && steady) record.watch = core::InputWatch::kNotWatched;
    record.slot = slot;
    record.storage = storage.number;
    record.producer = storage.producer;
    // A recorder names a tensor when it meets the module, which may be behind who made it.
    record.name = model.record.name.empty() ? storage.name : model.record.name;
    const auto strides = json.value("strides", ordered_json::object());
    if (strides.contains(slot)) record.strides = strides[slot].get<std::vector<std::int64_t>>();
    const core::OpRanges& kept = fixture_.manifest.trace.keep_ops;
    const bool in_window = kept.empty() || core::contains(kept, op.index);
    keep(model, in_window && json.value("stored", true), record);
    const auto at = static_cast<std::uint32_t>(op.tensors.size());
    op.tensors.push_back(std::move(record));
    for (const auto& [ending, part] : model.parts) {
      add_tensor(op, role, slot + "." + ending, part, json);
    }
    return {core::TensorSlot{at}};
  }

  void add_inputs(core::OpRecord& op, const ordered_json& json) {
    const ordered_json inputs = json.value("inputs", ordered_json::object());
    for (const auto& [argument, value] : inputs.items()) {
      if (value.is_null()) {
        op.arguments.push_back({argument, {}});
      } else if (value.is_string()) {
        op.arguments.push_back(
            {argument, add_tensor(op, core::TensorRole::kInput, argument, value, json)});
      } else {
        core::ValueList list;
        for (const auto& name : value) {
          const std::string slot = argument + "." + std::to_string(list.items.size());
          list.items.push_back(add_tensor(op, core::TensorRole::kInput, slot, name, json));
        }
        op.arguments.push_back({argument, {std::move(list)}});
      }
    }
    const ordered_json scalars = json.value("scalars", ordered_json::object());
    for (const auto& [argument, value] : scalars.items()) {
      op.arguments.push_back({argument, parse_value(value)});
    }
  }

  /// The same values twice: as what is handed out, and as what came of it.
  void add_returned(core::OpRecord& op, const ordered_json& json) {
    const auto value_of = [&](core::TensorRole role, const std::string& path, const auto& value) {
      return value.is_string() ? add_tensor(op, role, path, value, json) : parse_value(value);
    };
    for (const auto& [path, value] : json.items()) {
      op.arguments.push_back({path, value_of(core::TensorRole::kInput, path, value)});
    }
    for (const auto& [path, value] : json.items()) {
      op.results.push_back(value_of(core::TensorRole::kOutput, path, value));
    }
  }

  void add_outputs(core::OpRecord& op, const ordered_json& json) {
    // A view hands out what others have written.
    const bool view = json.value("view", false);
    const std::size_t inputs = op.tensors.size();
    const ordered_json outputs = json.value("outputs", ordered_json::array());
    for (const auto& [slot, name] : outputs.items()) {
      const std::size_t at = op.tensors.size();
      op.results.push_back(add_tensor(op, core::TensorRole::kOutput, slot, name, json));
      if (view) continue;
      mark_written(op, inputs, at, name);
      for (std::size_t i = 0; i < find(name).parts.size(); ++i) {
        mark_written(op, inputs, at + 1 + i, find(name).parts[i].second);
      }
    }
    for (const auto& value : json.value("results", ordered_json::array())) {
      op.results.push_back(parse_value(value));
    }
  }

  /// @param inputs  tensors of the operator that are none of its outputs
  void mark_written(core::OpRecord& op,
                    std::size_t inputs,
                    std::size_t at,
                    const std::string& name) {
    core::TensorRecord& output = op.tensors[at];
    const bool untouched = std::any_of(op.tensors.begin(),
                                       op.tensors.begin() + static_cast<std::ptrdiff_t>(inputs),
                                       [&output](const core::TensorRecord& input) {
                                         return input.storage == output.storage &&
                                                input.state == output.state &&
                                                input.digest == output.digest;
                                       });
    if (untouched) return;
    StorageState& storage = storages_[find(name).storage];
    storage.producer = static_cast<std::int64_t>(op.index);
    storage.name.clear();
    output.producer = storage.producer;
    output.name.clear();
  }

  void enter_op(const ordered_json& json) {
    core::OpRecord op;
    op.index = fixture_.ops.size();
    op.op = operator_of(json);
    op.site = site_of(json);
    op.depth = json.value("depth", 0U);
    op.parent = json.value("parent", std::int64_t{-1});
    const std::string phase = json.value("phase", "forward");
    const auto known = core::parse_name<core::Phase>(phase);
    if (!known) refuse("unknown phase " + phase);
    op.phase = *known;
    op.step = json.value("step", 0U);
    op.rank = json.value("rank", 0U);
    op.lane = json.value("lane", 0U);
    op.modes = json.value("modes", "");
    op.wall_ns = json.value("wall_ns", std::uint64_t{0});
    op.generator = parse_generator(json);
    op.substitutions = parse_substitutions(json);
    close_down_to(op.parent);
    if (json.contains("returned")) {
      add_returned(op, json["returned"]);
    } else {
      add_inputs(op, json);
    }
    fixture_.ops.push_back(std::move(op));
    open_.push_back(fixture_.ops.back().index);
    descriptions_.push_back(json);
  }

  /// An operator's results exist when it ends: when a record follows that it does not enclose.
  void close_down_to(std::int64_t parent) {
    while (!open_.empty() && static_cast<std::int64_t>(open_.back()) != parent) {
      const std::uint64_t index = open_.back();
      open_.pop_back();
      add_outputs(fixture_.ops[index], descriptions_[index]);
    }
  }

  std::shared_ptr<const core::OperatorInfo> operator_of(const ordered_json& json) {
    std::string full = json.value("operator", "");
    if (json.contains("returned") && !full.starts_with(core::kNamedPrefix)) {
      full = core::kReturnedOperator;
    }
    const std::size_t dot = full.find('.');
    core::OperatorInfo info;
    info.name = full.substr(0, dot);
    if (dot != std::string::npos) info.overload = full.substr(dot + 1);
    info.seeded = json.value("seeded", false);
    auto& shared = operators_[full + (info.seeded ? "!" : "")];
    if (!shared) shared = std::make_shared<const core::OperatorInfo>(std::move(info));
    return shared;
  }

  std::shared_ptr<const core::CallSite> site_of(const ordered_json& json) {
    const std::string module = json.value("module", "");
    const std::string source = json.value("source", "");
    auto& shared = sites_[module + "\n" + source];
    if (shared) return shared;
    core::CallSite site;
    site.module_path = module;
    site.module_type = json.value("module_type", "");
    const std::size_t colon = source.rfind(':');
    if (colon != std::string::npos) {
      const auto line = static_cast<std::uint32_t>(std::stoul(source.substr(colon + 1)));
      site.frames.push_back({source.substr(0, colon), line, "forward"});
    }
    shared = std::make_shared<const core::CallSite>(std::move(site));
    return shared;
  }

  static std::optional<core::Digest> border_of(const ordered_json& json) {
    if (json.is_null()) return std::nullopt;
    return core::digest_bytes(json.get<std::string>());
  }

  void add_blocks() {
    core::TraceSummary& trace = fixture_.manifest.trace;
    if (trace.depth != core::kDepthBlocks) return;
    for (const ordered_json& json : root_.value("blocks", ordered_json::array())) {
      core::BlockRow& row = fixture_.blocks.emplace_back();
      row.step = json.value("step", 0U);
      row.path = json.at("path").get<std::string>();
      row.call = json.value("call", 0U);
      row.phase = core::parse_name<core::Phase>(json.value("phase", "forward")).value();
      row.training = true;
      row.in = border_of(json.value("in", ordered_json()));
      row.out = border_of(json.value("out", ordered_json()));
      row.unopened = json.value("unopened", 0U);
    }
    for (const ordered_json& json : root_.value("parameters", ordered_json::array())) {
      fixture_.parameters.push_back({json.value("step", 0U),
                                     json.at("name").get<std::string>(),
                                     border_of(json.value("value", ordered_json()))});
    }
    core::BlockSummary& blocks = trace.blocks.emplace();
    blocks.rows = fixture_.blocks.size();
    blocks.parameters = fixture_.parameters.size();
    blocks.every = root_.value("every", std::uint64_t{1});
    blocks.not_seen = root_.value("not_seen", std::vector<std::string>{});
    const ordered_json unopened = root_.value("unopened", ordered_json::object());
    for (const auto& [type, count] : unopened.items()) {
      blocks.unopened.push_back({type, count.get<std::uint64_t>()});
    }
  }

  void summarise() {
    add_blocks();
    core::TraceSummary& trace = fixture_.manifest.trace;
    trace.operators = fixture_.ops.size();
    trace.contents = fixture_.contents.size();
    for (const auto& [key, bytes] : fixture_.contents) trace.stored_bytes += bytes.size();
    for (const core::OpRecord& op : fixture_.ops) {
      trace.tensors += op.tensors.size();
      trace.substitutions += op.substitutions.size();
      trace.drawing_operators += op.generator ? 1U : 0U;
      trace.returned += core::is_returned(op) ? 1U : 0U;
    }
  }

  const ordered_json& root_;
  DumpFixture fixture_;
  bool keep_bytes_ = true;
  bool keep_stats_ = true;
  bool counts_ = true;  ///< false: as older recorders did not
  std::int64_t next_storage_ = 0;
  std::map<std::string, TensorModel> tensors_;
  std::map<std::string, StorageState> storages_;
  std::map<std::string, std::shared_ptr<const core::OperatorInfo>> operators_;
  std::map<std::string, std::shared_ptr<const core::CallSite>> sites_;
  std::vector<std::uint64_t> open_;
  std::vector<ordered_json> descriptions_;  ///< of every operator, by its index
};

}  // namespace

DumpFixture parse_dump_fixture(std::string_view json) {
  try {
    const ordered_json root = ordered_json::parse(json);
    return FixtureParser(root).parse();
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what());
  }
}

}  // namespace repro_check::test_support
