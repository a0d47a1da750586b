// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "cmd/inspect/inspect_tensor.h"
#include "cmd/render/text.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/report_words.h"
#include "core/trace/dataflow.h"
#include "core/trace/given_seed.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;

constexpr std::size_t kRowPiece = std::size_t{1} << 18U;

/// JSON text as it stands so many levels deep. Strings hold no newline of their own.
std::string indented(const std::string& text, std::size_t by) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(by, ' ');
  }
  return out;
}

/// The operators that occur most, most frequent first, by name where they tie.
std::string most_frequent(const core::DumpSource& dump) {
  constexpr std::size_t kMost = 5;
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.op && !core::is_returned(head)) ++counts[head.op->name];
  }
  std::vector<std::pair<std::string, std::uint64_t>> ordered(counts.begin(), counts.end());
  std::ranges::stable_sort(ordered, std::greater<>{}, [](const auto& kind) { return kind.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, ordered.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", ordered[i].second, ordered[i].first);
  }
  if (ordered.size() > kMost) text += fmt::format(", and {} more kinds", ordered.size() - kMost);
  return text;
}

std::uint64_t operators_inside_regions(const core::DumpSource& dump) {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (!head.op || head.op->name != core::kRegionRecord) continue;
    const core::OpRecord record = dump.op(i);
    const core::Value* value = core::find_argument(record, core::kRegionOperators);
    const auto number = value == nullptr ? std::nullopt : core::number_in(record, *value);
    count += static_cast<std::uint64_t>(std::max(number.value_or(0), 0.0));
  }
  return count;
}

/// A weight is a parameter or a buffer: that is said by the manifest alone.
std::string state_kind(const core::RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find_if(manifest.named_tensors, [&](const auto& named) {
    return named.kind != core::NamedTensorKind::kInput && named.name == name;
  });
  if (found == manifest.named_tensors.end()) return "state";
  return found->kind == core::NamedTensorKind::kParameter ? "parameter" : "buffer";
}

/// Where the value of `tensor` came from. No output is named where its operator wrote memory that
/// it did not return.
Json source_json(const core::DumpSource& dump, const TensorRecord& tensor) {
  const core::TensorSource found = core::tensor_source(tensor);
  Json source{{"argument", tensor.slot},
              {"kind", "constant"},
              {"op", nullptr},
              {"operator", nullptr},
              {"output", nullptr},
              {"name", nullptr}};
  if (!found.name.empty()) source["name"] = std::string(found.name);
  if (found.kind == core::SourceKind::kOperator) {
    const core::OpRecord producer = dump.op(found.op);
    source["kind"] = "operator";
    source["op"] = found.op;
    if (producer.op) source["operator"] = full_name(producer);
    const TensorRecord* output = core::written_output(producer, tensor);
    if (output != nullptr && !output->slot.empty()) source["output"] = output->slot;
  } else if (found.kind == core::SourceKind::kInput) {
    source["kind"] = "input";
  } else if (found.kind == core::SourceKind::kState) {
    source["kind"] = state_kind(dump.manifest(), found.name);
  }
  return source;
}

/// `op 1 aten::relu out:0`, `parameter head.weight`, `model input x`, `a constant`.
std::string source_text(const Json& source) {
  if (!source["op"].is_null()) return say("op {op} {operator}[ out:{output}]", source);
  if (source["kind"] == "constant") return "a constant";
  return say(source["kind"] == "input" ? "model input {name}" : "{kind} {name}", source);
}

/// Tensors of one call that share memory, by first appearance.
Json aliases_json(const core::OpRecord& op) {
  Json groups = Json::array();
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.storage < 0) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Json& one) {
      return one["storage"] == tensor.storage;
    });
    if (group == groups.end()) {
      groups.push_back(
          {{"storage", tensor.storage}, {"tensors", Json::array()}, {"written", false}});
      group = std::prev(groups.end());
    }
    (*group)["tensors"].push_back(side_slot(tensor));
    if (tensor.role == core::TensorRole::kOutput && std::cmp_equal(tensor.producer, op.index)) {
      (*group)["written"] = true;
    }
  }
  Json shared = Json::array();
  for (Json& group : groups) {
    if (group["tensors"].size() > 1) shared.push_back(std::move(group));
  }
  return shared;
}

/// What flows into an operator and out of it.
void add_flow(const core::DumpSource& dump, const core::OpRecord& op, Json& document) {
  Json& producers = document["producers"] = Json::array();
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role == core::TensorRole::kInput) producers.push_back(source_json(dump, tensor));
  }
  Json& consumers = document["consumers"] = Json::array();
  core::for_each_reader(
      dump, op, [&](const auto& reader, const auto& argument, const auto& output) {
        consumers.push_back({{"output", output.slot},
                             {"op", reader.index},
                             {"operator", full_name(reader)},
                             {"argument", argument.slot}});
      });
  document["aliases"] = aliases_json(op);
}

/// Whether an output says of its source nothing that its operator does not.
bool says_no_source(const TensorRecord& tensor, std::uint64_t index) {
  if (tensor.state == core::ContentState::kUndefined) return true;
  if (std::cmp_equal(tensor.producer, index)) return true;
  return tensor.producer < 0 && tensor.name.empty() && tensor.role == core::TensorRole::kOutput;
}

Json tensor_model(const core::DumpSource& dump, const TensorRecord& tensor, std::uint64_t index) {
  Json model = tensor_json(tensor);
  model["slot"] = tensor.slot;
  model["device"] = tensor.device;
  model["content"] = state_text(tensor);
  if (tensor.layout != "strided") model["other_layout"] = tensor.layout;
  if (!says_no_source(tensor, index)) model["from"] = source_text(source_json(dump, tensor));
  if (tensor.watch == core::InputWatch::kMoved) model["written"] = "written";
  if (tensor.storage >= 0) model["place"] = tensor.storage;
  return model;
}

/// What text says besides the members of `document`, or in other words.
Json text_model(const core::DumpSource& dump, const core::OpRecord& op, Json document, bool all) {
  constexpr std::size_t kMostReaders = 20;
  Json model = std::move(document["op"]);
  model["source"] = Json::array();
  if (op.site) {
    const std::string& path = op.site->module_path;
    model["place"] = {{"path", path.empty() ? "(root)" : path},
                      {"module_type", op.site->module_type}};
    for (const core::SourceFrame& frame : op.site->frames) {
      model["source"].push_back(
          {{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
    }
  }
  if (op.parent >= 0) model["inside"] = op.parent;
  if (op.rank > 0) model["other_rank"] = op.rank;
  if (op.lane > 0) model["other_lane"] = core::lane_text(op.lane);
  model["arguments"] = Json::array();
  for (const core::Argument& argument : op.arguments) {
    model["arguments"].push_back(
        {{"name", argument.name}, {"text", core::to_text(argument.value)}});
  }
  model["results"] = Json::array();
  for (const core::Value& result : op.results) {
    model["results"].push_back(core::to_text(result));
  }
  for (const TensorRecord& tensor : op.tensors) {
    model["tensors"].push_back(tensor_model(dump, tensor, op.index));
  }
  for (Json& alias : document["aliases"]) {
    if (alias["written"] == true) alias["wrote"] = "wrote";
  }
  model["aliases"] = std::move(document["aliases"]);
  Json& readers = model["consumers"] = std::move(document["consumers"]);
  if (!all && readers.size() > kMostReaders) {
    model["unread"] = readers.size() - kMostReaders;
    readers.erase(readers.begin() + kMostReaders, readers.end());
  }
  model["unmoved"] = !op.generator && op.op && op.op->seeded;
  model["seconds"] = static_cast<double>(op.wall_ns) * 1e-9;
  return model;
}

}  // namespace

Json inspect_document(const core::DumpSource& dump) {
  return {{"format", "repro-check-inspect"}, {"version", "1.2"}, {"dump", dump.location()}};
}

std::string print_document(Json document, Form form) {
  return to_document(cleaned(std::move(document)), form == Form::kPrettyJson);
}

RowDocument::RowDocument(
    const Json& head, const std::string& name, Form form, TextSink sink, std::string heading)
    : form_(form), sink_(std::move(sink)), heading_(std::move(heading)) {
  if (!is_json(form_)) return;
  buffer_ = print_document(head, form_);
  const bool pretty = form_ == Form::kPrettyJson;
  buffer_.resize(buffer_.size() - (pretty ? 3 : 2));
  buffer_ += (pretty ? ",\n  \"" : ",\"") + name + (pretty ? "\": [" : "\":[");
}

void RowDocument::add(std::string_view row) {
  if (rows_ == 0 && !is_json(form_)) put(heading_);
  if (rows_++ > 0 && is_json(form_)) put(",");
  if (form_ != Form::kPrettyJson) return put(row);
  put("\n    " + indented(json_piece(Json::parse(row), true), 4));
}

void RowDocument::finish(const Json& tail) {
  if (is_json(form_)) {
    const bool pretty = form_ == Form::kPrettyJson;
    put(pretty && rows_ > 0 ? "\n  ]" : "]");
    for (const auto& [key, value] : tail.items()) {
      put((pretty ? ",\n  " : ",") + json_piece(key, false) + (pretty ? ": " : ":"));
      put(indented(json_piece(value, pretty), 2));
    }
    put(pretty ? "\n}\n" : "}\n");
  }
  flush();
}

void RowDocument::put(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kRowPiece) flush();
}

void RowDocument::flush() {
  if (buffer_.empty()) return;
  begun_ = true;
  sink_(buffer_);
  buffer_.clear();
}

std::string summary_view(const core::DumpSource& dump, Form form, int verbosity) {
  const core::RunManifest& manifest = dump.manifest();
  const core::TraceSummary& trace = manifest.trace;
  Json document = inspect_document(dump);
  document["manifest"] = Json::parse(core::to_json_text(manifest));
  if (is_json(form)) return print_document(document, form);
  Json model = document["manifest"];
  model["dump"] = dump.location();
  if (manifest.is_of_program()) {
    model["program"] = manifest.model_path;
  } else {
    model["model"] = {{"path", manifest.model_path},
                      {"method", manifest.model_method},
                      {"digest", core::to_hex(manifest.model_digest)}};
  }
  model["seed"] = core::given_seed_text(manifest);
  model["dropout"] = manifest.disable_dropout ? "disabled" : "as the model has it";
  if (model.contains("processes")) {
    for (Json& process : model["processes"]) {
      if (!process["recorded"]) process["not_recorded"] = "not recorded";
    }
  }
  model["calls"] = trace.operator_calls();
  model["own_contents"] = trace.contents - (trace.reference ? trace.reference->contents : 0);
  model["most"] = most_frequent(dump);
  model["fused"] = operators_inside_regions(dump);
  const auto count = [&](core::NamedTensorKind kind) {
    return std::ranges::count(manifest.named_tensors, kind, &core::NamedTensor::kind);
  };
  model["parameters"] = count(core::NamedTensorKind::kParameter);
  model["buffers"] = count(core::NamedTensorKind::kBuffer);
  if (verbosity == 0) {
    Json inputs = Json::array();
    for (Json& tensor : model["named_tensors"]) {
      tensor.erase("digest");
      if (tensor["kind"] == "input") inputs.push_back(tensor);
    }
    model["named_tensors"] = std::move(inputs);
    model.erase("settings");
    model.erase("environment");
    return say_lines(view_lines("dump"), model);
  }
  for (Json& setting : model["settings"]) {
    if (setting["found"] != setting["used"]) {
      setting["before"] = "found " + setting["found"].get<std::string>();
    }
  }
  return say_lines(view_lines("dump"), model);
}

RanksView ranks_view(const std::filesystem::path& place,
                     const std::vector<store::RankDump>& ranks,
                     Form form) {
  RanksView view;
  Json document{{"format", "repro-check-inspect"}, {"version", "1.2"}, {"dump", place.string()}};
  document["ranks"] = Json::array();
  for (const store::RankDump& rank : ranks) {
    Json row{{"rank", rank.rank}, {"dump", rank.path.string()}};
    try {
      const auto dump = store::open_partial(rank.path);
      const core::RunManifest& manifest = dump->manifest();
      document["program"] = manifest.model_path;
      row["operators"] = manifest.trace.operator_calls();
      row["tensors"] = manifest.trace.tensors;
      if (manifest.trace.partial) row["partial"] = manifest.trace.partial->reason;
    } catch (const core::Error& error) {
      row["unreadable"] = error.what();
      view.code = core::ExitCode::kDumpUnusable;
    }
    document["ranks"].push_back(std::move(row));
  }
  const std::uint32_t expected = expected_ranks(place);
  if (expected > ranks.size()) document["expected"] = expected;
  if (is_json(form)) {
    view.text = print_document(document, form);
    return view;
  }
  document["there"] = ranks.size();
  view.text = say_lines(view_lines("dumps-of-ranks"), document);
  return view;
}

std::string verified_view(const core::DumpSource& dump, Form form) {
  core::verify_contents(dump);
  const core::TraceSummary& trace = dump.manifest().trace;
  const std::string missing = dump.missing_reference();
  const core::TraceReference elsewhere = trace.reference.value_or(core::TraceReference{});
  Json document = inspect_document(dump);
  document["verified"] = true;
  document["contents"] = trace.contents - (missing.empty() ? 0 : elsewhere.contents);
  document["bytes"] = trace.stored_bytes + (missing.empty() ? elsewhere.bytes : 0);
  document["not_checked"] = missing.empty() ? 0 : elsewhere.contents;
  if (is_json(form)) return print_document(document, form);
  std::string text = say("VERIFIED {contents:content}, {bytes:bytes}: ", document) +
                     std::string(verified_text(missing.empty())) + "\n";
  if (missing.empty()) return text;
  return text + fmt::format("  not checked: {}, {}: {}\n",
                            format_count(elsewhere.contents, "content"),
                            format_bytes(elsewhere.bytes),
                            escape_name(missing));
}

std::string op_view(const core::DumpSource& dump, std::uint64_t index, Form form, int verbosity) {
  const core::OpRecord op = dump.op(index);
  Json document = inspect_document(dump);
  document["op"] = op_json(op);
  add_flow(dump, op, document);
  if (is_json(form)) return print_document(document, form);
  return fmt::format("op {} {}\n", op.index, escape_name(full_name(op))) +
         say_lines(
             view_lines("operator"), text_model(dump, op, std::move(document), verbosity > 0), 2);
}

namespace {

bool is_plain(char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '#'; }

/// A comma, unless it is the first of an object or list.
void separate(std::string& out) {
  if (out.back() != '{' && out.back() != '[') out += ',';
}

template <typename T>
void write_record(std::string& out, const T& record);

/// The members of an object, written one after another.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) {}

  template <typename T>
  Members& operator()(std::string_view key, const T& value) {
    separate(out_);
    out_.append("\"").append(key).append("\":");
    write(value);
    return *this;
  }

 private:
  template <typename T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    } else if constexpr (std::is_floating_point_v<T>) {
      out_ += json_piece(json_number(value), false);
    } else if constexpr (std::is_same_v<T, Json>) {
      out_ += json_piece(value, false);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      const std::string_view text = value;
      if (!std::ranges::all_of(text, is_plain)) return write(json_text(text));
      out_.append("\"").append(text).append("\"");
    } else if constexpr (std::is_pointer_v<T>) {
      write(*value);
    } else {
      write_record(out_, value);
    }
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    if (value) return write(*value);
    out_ += "null";
  }
  template <typename T>
  void write(const std::vector<T>& items) {
    out_ += '[';
    for (const T& item : items) {
      separate(out_);
      write(item);
    }
    out_ += ']';
  }
  std::string& out_;
};

/// describe() says what the members of each kind of record are.
template <typename T>
void write_record(std::string& out, const T& record) {
  out += '{';
  Members members(out);
  describe(members, record);
  out += '}';
}

Json value_json(const core::Value& value) {
  return std::visit(
      [](const auto& data) -> Json {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return json_integer(data);
        else if constexpr (std::is_same_v<T, double>)
          return json_number(data);
        else if constexpr (std::is_same_v<T, std::complex<double>>)
          return {{"complex", Json::array({json_number(data.real()), json_number(data.imag())})}};
        else if constexpr (std::is_same_v<T, std::string>)
          return json_text(data);
        else if constexpr (std::is_same_v<T, core::Symbol>)
          return {{"symbol", json_text(data.name)}};
        else if constexpr (std::is_same_v<T, core::TensorSlot>)
          return {{"tensor", data.index}};
        else if constexpr (std::is_same_v<T, core::Opaque>)
          return {{"opaque", json_text(data.type)}};
        else if constexpr (std::is_same_v<T, core::ValueList>) {
          Json items = Json::array();
          for (const core::Value& item : data.items) items.push_back(value_json(item));
          return items;
        } else
          return data;
      },
      value.data);
}

void describe(Members& f, const core::TensorStats& it) {
  f MEMBER(min) MEMBER(max) MEMBER(mean) MEMBER(std) MEMBER(l2) MEMBER(zeros) NAMED("nan", nans)
      NAMED("positive_inf", positive_infs) NAMED("negative_inf", negative_infs) MEMBER(subnormals);
}

void describe(Members& f, const core::TensorRecord& it) {
  std::optional<std::string> digest;
  if (it.state == core::ContentState::kHashed) digest = core::to_hex(it.digest);
  std::optional<bool> moved;
  if (it.watch != core::InputWatch::kNotWatched) moved = it.watch == core::InputWatch::kMoved;
  std::optional<std::uint64_t> nans;
  std::optional<std::uint64_t> infs;
  if (const auto counts = it.non_finite()) {
    nans = counts->nans;
    infs = counts->infs();
  }
  f("role", it.role == core::TensorRole::kInput ? "input" : "output") MEMBER(slot);
  f("dtype", core::dtype_name(it.dtype)) MEMBER(shape) MEMBER(strides);
  f NAMED("offset", storage_offset) MEMBER(device) MEMBER(layout) MEMBER(attributes)
      MEMBER(requires_grad)("state", core::content_state_name(it.state));
  f("digest", digest) MEMBER(stored)("moved", moved) MEMBER(storage) MEMBER(producer) MEMBER(name);
  // Counts stand apart from the rest, so that `.outputs[].nan > 0` is all a filter has to say.
  f("nan", nans)("inf", infs) MEMBER(stats);
}

void describe(Members& f, const core::SourceFrame& it) {
  f MEMBER(file) MEMBER(line) MEMBER(function);
}

void describe(Members& f, const core::Argument& it) {
  f MEMBER(name)("value", value_json(it.value));
}

void describe(Members& f, const core::Substitution& it) {
  f MEMBER(argument) MEMBER(from) MEMBER(to) MEMBER(reason);
}

void describe(Members& f, const core::GeneratorUse& it) {
  f MEMBER(device)("seed", json_integer(it.seed));
  f("position_before", fmt::format("{:016x}", it.position_before));
  f("position_after", fmt::format("{:016x}", it.position_after));
  f("drawn", it.drawn < 0 ? Json(nullptr) : json_integer(it.drawn));
}

void describe(Members& f, const core::OpRecord& it) {
  const core::CallSite site = it.site ? *it.site : core::CallSite{};
  std::vector<std::string_view> modes;
  if (!it.modes.empty()) modes = core::split(it.modes, ' ');
  std::vector<Json> results;
  for (const core::Value& result : it.results) results.push_back(value_json(result));
  std::vector<const core::TensorRecord*> inputs;
  std::vector<const core::TensorRecord*> outputs;
  for (const core::TensorRecord& tensor : it.tensors) {
    (tensor.role == core::TensorRole::kInput ? inputs : outputs).push_back(&tensor);
  }
  f MEMBER(index)("operator", full_name(it))("seeded", it.op != nullptr && it.op->seeded);
  f("module", site.module_path)("module_type", site.module_type)("source", site.frames);
  f("phase", core::name_of(it.phase)) MEMBER(step) MEMBER(rank) MEMBER(lane) MEMBER(depth);
  f("modes", modes) MEMBER(parent)
      MEMBER(arguments)("results", results)("inputs", inputs)("outputs", outputs);
  f MEMBER(substitutions) MEMBER(generator) MEMBER(wall_ns);
}

template <typename T>
std::string record_text(const T& record) {
  std::string out;
  write_record(out, record);
  return out;
}

}  // namespace

std::string op_text(const core::OpRecord& op) { return record_text(op); }
Json op_json(const core::OpRecord& op) { return Json::parse(record_text(op)); }
Json tensor_json(const core::TensorRecord& tensor) { return Json::parse(record_text(tensor)); }
Json stats_json(const core::TensorStats& stats) { return Json::parse(record_text(stats)); }

std::string full_name(const core::OpRecord& op) { return op.op ? op.op->full_name() : ""; }

std::string state_text(const core::TensorRecord& tensor) {
  if (tensor.state == core::ContentState::kHashed) {
    return core::to_hex(tensor.digest) + (tensor.stored ? "" : " (not stored)");
  }
  if (tensor.state == core::ContentState::kNone) return "no values";
  return std::string(core::content_state_name(tensor.state));
}

Json element_json(const std::string& text, const std::string& bits) {
  // What is no JSON number (nan, a complex value, a bool) stays as people read it.
  Json value = Json::parse(text, nullptr, false);
  const bool rounds =
      (value.is_number_unsigned() && json_integer(value.get<std::uint64_t>()).is_string()) ||
      (value.is_number_integer() && json_integer(value.get<std::int64_t>()).is_string());
  if (!value.is_primitive() || value.is_discarded() || rounds) value = text;
  return {{"value", std::move(value)}, {"bits", bits}};
}

}  // namespace repro_check::cmd
