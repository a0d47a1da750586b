// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/rank_roots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "comparators/ranks/exchanged.h"
#include "comparators/report/report.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

struct KindRule {
  std::string_view name;
  std::string_view record;
  std::string_view prefix;  ///< of what belongs to the kind in it; empty = all of its numbers
};
constexpr std::array<KindRule, kReplicaKinds> kRules{{
    {"parameters when the forward pass begins", core::kReplicaRecord, core::kParameterPrefix},
    {"buffers when the forward pass begins", core::kReplicaRecord, core::kBufferPrefix},
    {"activations", core::kPlacedRecord, ""},
    {"clipping of gradients", core::kClipRecord, ""},
    {"loss scale", core::kScalerRecord, ""},
    {"gradients", core::kStepRecord, core::kGradientPrefix},
    {"learning rates", core::kStepRecord, core::kLearningRatePrefix},
    {"options of the optimizer", core::kStepRecord, core::kOptionPrefix},
    {"optimizer state", core::kStepRecord, core::kStatePrefix},
    {"parameters", core::kStepRecord, core::kParameterPrefix},
}};

const KindRule& rule_of(ReplicaKind kind) { return kRules.at(static_cast<std::size_t>(kind)); }

void put(std::string& bytes, const void* value, std::size_t size) {
  bytes.append(static_cast<const char*>(value), size);
}

core::Digest digest_of(const std::string& bytes) {
  return core::digest_leaf(std::as_bytes(std::span(bytes)));
}

/// Of the bytes, and of what they are read as.
core::Digest digest_of(const core::TensorRecord& tensor, std::string& scratch) {
  scratch.clear();
  put(scratch, &tensor.digest, sizeof tensor.digest);
  put(scratch, &tensor.dtype, sizeof tensor.dtype);
  put(scratch, tensor.shape.data(), std::span(tensor.shape).size_bytes());
  return digest_of(scratch);
}

/// Calls see(name, digest) for all that is one number, `unread` counted up by what is none.
void for_each_number(const core::OpRecord& record, std::uint64_t& unread, auto&& see) {
  for (std::size_t i = 0; i < std::min(record.results.size(), record.arguments.size()); ++i) {
    if (const auto number = core::number_in(record, record.results[i])) {
      see(std::string_view(record.arguments[i].name), digest_of_number(*number));
    } else {
      ++unread;
    }
  }
}

/// Calls see(name, digest) for what items_below() puts together, in the order of the record. A name
/// is a part of the record.
void for_each_below(const core::OpRecord& record,
                    std::string_view prefix,
                    std::uint64_t& unread,
                    auto&& see) {
  // Of numbers in a list the whole is the name: `lr[0]`.
  const std::size_t cut = prefix.ends_with('.') ? prefix.size() : 0;
  std::string scratch;
  for (const core::Argument& argument : record.arguments) {
    const auto* number = std::get_if<double>(&argument.value.data);
    if (number != nullptr && argument.name.starts_with(prefix)) {
      see(std::string_view(argument.name).substr(cut), digest_of_number(*number));
    }
  }
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor) || !tensor.slot.starts_with(prefix)) continue;
    if (tensor.state == core::ContentState::kHashed) {
      see(std::string_view(tensor.slot).substr(cut), digest_of(tensor, scratch));
    } else {
      ++unread;
    }
  }
}

/// Without its part: `a.weight` of `a.weight@0:1/2`, and of `a.weight.exp_avg@0:1/2` of its state.
std::string_view whole_of(std::string_view item, bool is_state) {
  const std::string_view whole = core::placed_name(item).whole;
  return is_state ? whole.substr(0, whole.rfind('.')) : whole;
}

/// Calls see(part, name, digest) for what a record holds of a kind.
void for_each_replica(const Replication& replication,
                      const core::OpRecord& record,
                      ReplicaKind kind,
                      std::uint64_t& unread,
                      auto&& see) {
  const std::string_view prefix = rule_of(kind).prefix;
  if (prefix.empty()) {
    for_each_number(record, unread, [&](std::string_view name, const core::Digest& digest) {
      see(std::string_view(), name, digest);
    });
    return;
  }
  const Replicas& replicas = replication.replicas;
  const std::string holders = core::kHoldersMark + replicas.ranks;
  const bool is_state = kind == ReplicaKind::kOptimizerState;
  const bool is_named = kind != ReplicaKind::kLearningRates && kind != ReplicaKind::kOptions;
  std::string placed;
  std::string parameter;
  for_each_below(record, prefix, unread, [&](std::string_view item, const core::Digest& digest) {
    const std::string_view whole = whole_of(item, is_state);
    if (is_named && !replication.meshes.empty()) {
      placed = name_on_mesh(item, whole, replication.meshes);
      item = placed;
    }
    parameter.assign(whole);
    if (is_named) parameter += part_of(item);
    const bool is_apart = is_named && replication.apart.contains(parameter);
    if (is_apart && replicas.ranks.empty()) return;
    see(is_apart ? std::string_view(holders) : part_of(item), item, digest);
  });
}

core::Digest root_of(const ReplicaItems& items) {
  std::string lines;
  for (const ReplicaItem& item : items) {
    const std::size_t length = item.name.size();
    put(lines, &length, sizeof length);
    lines += item.name;
    put(lines, &item.digest, sizeof item.digest);
  }
  return digest_of(lines);
}

bool is_of_model(const core::OpRecord& head) {
  return head.phase == core::Phase::kForward && head.parent < 0 && head.site &&
         !head.site->module_type.empty();
}

RankData rank_data(const DataOrder& order) {
  RankData data{data_findings(order), {}};
  for (const auto& [number, loader] : order) {
    if (loader.epochs.empty()) continue;
    const DataEpoch& first = loader.epochs.front();
    LoaderRead& read = data.loaders.emplace_back();
    read.loader = number;
    read.name = loader_text(number, loader);
    read.trains = first.trains;
    read.batches = first.batches.size();
    read.samples = first.contents.items;
    read.distinct = first.distinct;
    read.contents = first.contents.sum;
    if (!first.batches.empty()) read.first_batch = first.batches.front().contents;
    read.numbers = loader.first_epoch;
    read.digests = loader.first_contents;
    read.is_whole = loader.has_all_contents;
  }
  return data;
}

/// The last of a list by step, one that is new where it is of another step.
template <typename Of>
Of& at_step(std::vector<Of>& list, std::uint32_t step) {
  if (list.empty() || list.back().step != step) list.emplace_back().step = step;
  return list.back();
}

/// `enters layers.0.up (train.py:31), backward`
std::string name_of(const core::OpRecord& record, std::string_view way) {
  std::string name(way);
  if (record.site && !record.site->module_path.empty()) name += " " + record.site->module_path;
  if (const std::string line = core::line_text(record.site.get()); !line.empty()) {
    name += fmt::format(" ({})", line);
  }
  if (record.phase == core::Phase::kBackward) name += ", backward";
  return name;
}

/// A value that goes into a tensor which lies on several ranks, or comes out of one.
struct Crossing {
  std::string part;     ///< `|0,1 (train.py:31)`, the ranks that hold the same, and where; of one
                        ///< that holds its part alone which part that is: `@1:0/2`
  std::string holders;  ///< `|0,1`; empty of the latter
  ReplicaItem item;     ///< by the way it goes, its module, its line, and how often that was before
};

/// Names what crosses in a step alike on all ranks. Records of one rank, in their order.
class CrossingReader {
 public:
  /// @param record  a core::kPlacedRecord
  /// @param unread  counted up by tensors without a digest
  std::vector<Crossing> read(const core::OpRecord& record, std::uint64_t& unread) {
    if (std::exchange(step_, record.step) != record.step) seen_.clear();
    std::vector<Crossing> crossings;
    for (ReplicaItem& item : items_below(record, "", unread)) {
      const core::PlacedName placed = core::placed_name(item.name);
      const bool shared = placed.ranks.find(',') != std::string_view::npos;
      const std::string_view same = shared ? placed.ranks : std::string_view();
      std::string part(shared ? same : placed.part);
      // What one rank looks at alone, for its log, is at a line of its own.
      if (shared) part += fmt::format(" ({})", core::line_text(record.site.get()));
      std::string name = name_of(record, placed.whole);
      const std::size_t times = ++seen_[{part, name}];
      if (times > 1) name += fmt::format(" #{}", times);
      crossings.push_back(
          {std::move(part), std::string(same), {std::move(name), item.digest, record.index}});
    }
    return crossings;
  }

 private:
  std::uint32_t step_ = 0;
  std::map<std::pair<std::string, std::string>, std::size_t> seen_;  ///< in this step, by part
};

/// Puts the records of one rank together, in order.
class RankReader {
 public:
  RankReader(const Replication& replication, const core::RunManifest& manifest)
      : replication_(replication), of_blocks_(manifest.is_of_blocks()) {}

  void add_draw(const core::OpRecord& record) {
    if (!record.generator) return;
    StepDraws& step = at_step(found_.draws, record.step);
    if (step.draws++ == 0) step.seed = record.generator->seed;
    std::string line;
    put(line, &step.digest, sizeof step.digest);
    put(line, &record.generator->seed, sizeof record.generator->seed);
    put(line, &record.generator->position_before, sizeof record.generator->position_before);
    step.digest = digest_of(line);
  }

  void add_batch(const core::OpRecord& record) {
    inputs_.read(record);
    look_for_nan(record, "", NanStage::kRead);
  }

  void add_loss(const core::OpRecord& record) {
    ++at_step(found_.passes, record.step).passes;
    look_for_nan(record, "", NanStage::kLoss);
  }

  void add_step(const core::OpRecord& record) {
    found_.steps = std::max(found_.steps, record.step + 1);
    found_.exchanges_behind = 0;
    const auto* norm = core::argument_as<double>(record, core::kGradientNorm);
    if (norm != nullptr && *norm > 0) found_.has_gradients = true;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!tensor.slot.starts_with(core::kGradientPrefix)) continue;
      found_.finds_gradients = true;
      const auto elements = static_cast<std::uint64_t>(core::element_count(tensor.shape));
      largest_gradient_ = std::max(largest_gradient_, elements);
    }
    if (!replication_.replicas.everywhere() && record.step < 2) add_gradients(record);
    if (of_blocks_) {
      see_parameters(record);
    } else {
      still_.see_step(record);
    }
    look_for_nan(record, core::kParameterPrefix, NanStage::kParameters);
    begin(record);
    add_kinds(record, core::kStepRecord, record.step);
    stepped_ = record.step;
  }

  void add_replica(const core::OpRecord& record) {
    inputs_.read(record);
    look_for_nan(record, core::kInputValues, NanStage::kRead);
    begin(record);
    add_kinds(record, core::kReplicaRecord, record.step);
    const auto* through = core::argument_as<double>(record, core::kThroughWrapper);
    if (through != nullptr && *through == 0) found_.past_wrapper.insert(record.step);
  }

  void add_placed(const core::OpRecord& record) {
    for (const auto& [part, holders, item] : crossings_.read(record, found_.unread)) {
      if (holders.empty()) {
        if (record.step < 2) parts_[item.name + part].push_back(item.digest);
        continue;
      }
      if (is_of_model(record) && item.name.starts_with(core::kEnters)) found_.peers.insert(holders);
      ReplicaColumn& column = columns_[{ReplicaKind::kActivations, 0, part}];
      if (column.steps.empty() || column.steps.back() != record.step) {
        column.add(record.step, {{}, record.index, 0});
      }
      ++column.items.back();
      column.digests.back() = root_of({{"before", column.digests.back()}, item});
    }
  }

  /// A norm is that of all replicas, and of nothing that is a rank's own.
  void add_clipping(const core::OpRecord& record) {
    const ReplicaItems local = local_norms_of(record);
    const bool has_own = std::ranges::any_of(local, [&](const ReplicaItem& item) {
      const std::string_view name =
          std::string_view(item.name).substr(core::kLocalNormPrefix.size());
      return replication_.apart.contains(name.substr(0, name.find(core::kHoldersMark)));
    });
    const bool is_of_all = core::argument_as<double>(record, core::kClippedByAll) != nullptr;
    if (is_of_all || (!has_own && has_replicas()))
      add_kinds(record, core::kClipRecord, record.step);
    if (local.empty()) return;
    ClippedNorm clipped = clipped_norm_of(record);
    if (has_own) {
      clipped.why_open = {Phrase("split-not-known")};
    }
    if (found_.norms.empty() || !continues(found_.norms.back(), clipped)) {
      found_.norms.push_back(std::move(clipped));
    }
  }

  /// It comes behind the step that it was for, if that was made.
  void add_scale(const core::OpRecord& record) {
    const bool stepped = stepped_ && *stepped_ + 1 == record.step;
    stepped_.reset();
    if (has_replicas()) {
      add_kinds(record, core::kScalerRecord, stepped ? record.step - 1 : record.step);
    }
  }

  void add_exchange(const RankExchange& exchange) {
    found_.exchanges.add(exchange);
    ++found_.exchanges_behind;
  }
  void add_given(const GivenToAll& given) { found_.exchanges.add(given); }
  void add_content(const MessageContent& content) { found_.exchanges.add(content); }

  /// For as long as nothing was stepped.
  void add_early(const core::OpRecord& record) { exchanged_.see(record); }

  /// Behind which no operator says whose parameters work on what was brought.
  void expect_experts() { has_experts_ = true; }

  RankRoots finish(const ExchangeReader& exchanges,
                   const DataOrder& data,
                   const core::RunManifest& manifest,
                   SharedColumns& shared) {
    found_.still = still_.finish(manifest);
    found_.exchanged = exchanged_.finish();
    if (of_blocks_) finish_blocks(manifest);
    for (auto& [series, column] : columns_) {
      found_.columns.emplace(series, shared.keep(std::move(column)));
    }
    found_.data = rank_data(data);
    found_.exchanges.inside = exchanges.inside();
    const bool has_messages = std::ranges::any_of(found_.exchanges.chains, [](const auto& chain) {
      return chain.first.kind != ExchangeKind::kCollective;
    });
    found_.passes_on = has_messages && found_.exchanges.largest < largest_gradient_;
    found_.inputs = inputs_.digests();
    std::ranges::sort(found_.beginning, {}, &ReplicaItem::name);
    found_.gradients = moving(gradients_);
    found_.parts = moving(parts_);
    return std::move(found_);
  }

 private:
  void look_for_nan(const core::OpRecord& record, std::string_view prefix, NanStage stage) {
    if (found_.nan) return;
    const auto is_nan = [&](const core::TensorRecord& tensor) {
      const auto counts = tensor.non_finite();
      return counts && counts->nans > 0 && tensor.slot.starts_with(prefix);
    };
    const auto found = std::ranges::find_if(record.tensors, is_nan);
    if (found != record.tensors.end()) found_.nan = {record.step, stage, record.index, found->slot};
  }

  /// Which of several readings of a parameter differ: nobody tells of its gradients.
  void see_parameters(const core::OpRecord& record) {
    std::uint64_t ignored = 0;
    for (const ReplicaItem& item : items_below(record, core::kParameterPrefix, ignored)) {
      const auto [known, is_new] = values_.try_emplace(item.name, item.digest);
      if (is_new) continue;
      found_.stays = found_.stays.value_or(true) && known->second == item.digest;
    }
  }

  /// What gradients and operators say elsewhere.
  void finish_blocks(const core::RunManifest& manifest) {
    for (const core::NamedTensor& tensor : manifest.named_tensors) {
      if (tensor.kind != core::NamedTensorKind::kParameter) continue;
      const auto elements = static_cast<std::uint64_t>(core::element_count(tensor.shape));
      largest_gradient_ = std::max(largest_gradient_, elements);
    }
    if (!has_experts_) return;
    for (const ReplicaItem& item : found_.beginning) found_.exchanged.insert(item.name);
  }

  /// Of the first two steps.
  using Early = std::map<std::string, std::vector<core::Digest>>;

  static ReplicaItems moving(const Early& early) {
    ReplicaItems items;
    for (const auto& [name, seen] : early) {
      if (seen.size() != 2 || seen.front() == seen.back()) continue;
      std::string both;
      for (const core::Digest& digest : seen) put(both, &digest, sizeof digest);
      items.push_back({name, digest_of(both)});
    }
    return items;
  }

  void add_gradients(const core::OpRecord& record) {
    std::uint64_t ignored = 0;
    for (const ReplicaItem& item : items_below(record, core::kGradientPrefix, ignored)) {
      gradients_[placed(item.name)].push_back(item.digest);
    }
  }

  /// Models that a program calls by themselves come one after the other.
  void begin(const core::OpRecord& record) {
    if (record.step > 0 && !found_.beginning.empty()) return;
    std::uint64_t ignored = 0;
    for (ReplicaItem& item : items_below(record, core::kParameterPrefix, ignored)) {
      item.name = placed(item.name);
      if (begun_.insert(item.name).second) found_.beginning.push_back(std::move(item));
    }
  }

  [[nodiscard]] std::string placed(std::string_view name) const {
    return name_on_mesh(name, whole_of(name, false), replication_.meshes);
  }

  /// Ranks that have nothing in common may train models of their own.
  [[nodiscard]] bool has_replicas() const {
    return std::ranges::any_of(found_.beginning, [&](const ReplicaItem& item) {
      return !replication_.apart.contains(item.name);
    });
  }

  void add_kinds(const core::OpRecord& record, std::string_view name, std::uint32_t step) {
    const std::uint32_t ordinal = ordinals_[{step, name}]++;
    for (std::size_t k = 0; k < kReplicaKinds; ++k) {
      const auto kind = static_cast<ReplicaKind>(k);
      if (rule_of(kind).record != name) continue;
      const bool in_shares = of_blocks_ && kind == ReplicaKind::kParameters;
      for (const auto& [part, root] : replication_.roots_of(record, kind, found_.unread)) {
        columns_[{kind, in_shares ? share_of(record, part) : ordinal, part}].add(
            step, {root.sum, record.index, static_cast<std::uint32_t>(root.items)});
      }
    }
  }

  /// Behind a step a share of the parameters is read. Ranks that hold others besides may read
  /// another one, and there is nothing to hold against it.
  [[nodiscard]] std::uint32_t share_of(const core::OpRecord& record,
                                       const std::string& part) const {
    std::string names;
    for (const ReplicaItem& item : replication_.items_of(record, ReplicaKind::kParameters, part)) {
      names += item.name + '\n';
    }
    return static_cast<std::uint32_t>(digest_of(names).low);
  }

  const Replication& replication_;
  const bool of_blocks_;
  bool has_experts_ = false;
  std::map<std::string, core::Digest, std::less<>> values_;  ///< of parameters of blocks, the first
  RankRoots found_;
  StillParameterReader still_;
  ExchangedReader exchanged_;
  std::map<ReplicaSeries, ReplicaColumn> columns_;
  CrossingReader crossings_;
  Early gradients_;
  Early parts_;
  std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> ordinals_;
  InputReader inputs_;
  std::set<std::string> begun_;  ///< parameters
  std::uint64_t largest_gradient_ = 0;
  std::optional<std::uint32_t> stepped_;  ///< since a loss scale was updated
};

}  // namespace

core::Digest digest_of_number(double number) noexcept {
  // Of NaN any is as good as another.
  if (std::isnan(number)) number = std::numeric_limits<double>::quiet_NaN();
  return {std::bit_cast<std::uint64_t>(number), 1};
}

std::optional<double> number_of(core::Digest digest) noexcept {
  return digest.low == 1 ? std::optional(std::bit_cast<double>(digest.high)) : std::nullopt;
}

ReplicaItems local_norms_of(const core::OpRecord& record) {
  ReplicaItems items;
  if (record.op->name != core::kClipRecord) return items;
  for (const core::Argument& argument : record.arguments) {
    const auto* norm = std::get_if<double>(&argument.value.data);
    if (norm != nullptr && argument.name.starts_with(core::kLocalNormPrefix)) {
      items.push_back({argument.name, digest_of_number(*norm)});
    }
  }
  return items;
}

std::string_view replica_kind_name(ReplicaKind kind) noexcept {
  return kRules.at(static_cast<std::size_t>(kind)).name;
}

std::string_view record_of(ReplicaKind kind) noexcept {
  return kRules.at(static_cast<std::size_t>(kind)).record;
}

std::string_view part_of(std::string_view name) noexcept {
  const core::PlacedName placed = core::placed_name(name);
  return placed.part.empty() ? placed.part : name.substr(placed.whole.size());
}

std::string name_on_mesh(std::string_view name, std::string_view whole, const Meshes& meshes) {
  std::string placed(name);
  const auto mesh = meshes.find(whole);
  if (mesh == meshes.end()) return placed;
  if (part_of(name).empty()) placed += core::kShardMark;
  return placed + core::kHoldersMark + mesh->second;
}

const Meshes& Replication::none() {
  static const Meshes meshes;
  return meshes;
}

ReplicaItems items_below(const core::OpRecord& record,
                         std::string_view prefix,
                         std::uint64_t& unread) {
  ReplicaItems items;
  for_each_below(record, prefix, unread, [&](std::string_view name, const core::Digest& digest) {
    items.push_back({std::string(name), digest});
  });
  std::ranges::sort(items, {}, &ReplicaItem::name);
  return items;
}

ReplicaItems Replication::items_of(const core::OpRecord& record,
                                   ReplicaKind kind,
                                   std::string_view part) const {
  ReplicaItems items;
  std::uint64_t ignored = 0;
  const auto add = [&](std::string_view of, std::string_view name, const core::Digest& digest) {
    if (of == part) items.push_back({std::string(name), digest});
  };
  for_each_replica(*this, record, kind, ignored, add);
  std::ranges::sort(items, {}, &ReplicaItem::name);
  return items;
}

Replication::Roots Replication::roots_of(const core::OpRecord& record,
                                         ReplicaKind kind,
                                         std::uint64_t& unread) const {
  Roots roots;
  std::string line;
  const auto add = [&](std::string_view part, std::string_view name, const core::Digest& digest) {
    line.assign(name);
    put(line, &digest, sizeof digest);
    auto root = roots.find(part);
    if (root == roots.end()) root = roots.emplace(part, MultisetDigest()).first;
    root->second.add(digest_of(line));
  };
  for_each_replica(*this, record, kind, unread, add);
  return roots;
}

void InputReader::read(const core::OpRecord& record) {
  const bool is_batch = record.op->name == core::kBatchRecord;
  std::uint64_t ignored = 0;
  const ReplicaItems items = items_below(record, is_batch ? "" : core::kInputValues, ignored);
  const core::Digest root = root_of(items);
  if (!items.empty()) put(read_[record.step], &root, sizeof root);
}

std::vector<StepInputs> InputReader::digests() const {
  std::vector<StepInputs> digests;
  digests.reserve(read_.size());
  for (const auto& [step, lines] : read_) digests.push_back({step, digest_of(lines)});
  return digests;
}

ParameterRows::ParameterRows(const core::DumpSource& dump) : dump_(dump) {
  for (std::uint64_t i = 0; i < dump.parameter_count(); ++i) {
    rows_[dump.parameter(i).step].push_back(i);
  }
}

void ParameterRows::put_into(core::OpRecord& record) const {
  const auto rows = rows_.find(record.step);
  if (record.op->name != core::kStepRecord || rows == rows_.end()) return;
  for (std::uint64_t i = record.index + 1; i < dump_.op_count(); ++i) {
    const core::OpHead next = dump_.op_head(i);
    if (next.step > record.step) break;
    if (next.step == record.step && next.op->name == core::kStepRecord) return;
  }
  for (const std::uint64_t i : rows->second) {
    const core::ParameterRow row = dump_.parameter(i);
    core::TensorRecord& tensor = record.tensors.emplace_back();
    tensor.role = core::TensorRole::kOutput;
    tensor.slot = std::string(core::kParameterPrefix) + row.name;
    tensor.state = row.digest ? core::ContentState::kHashed : core::ContentState::kNone;
    tensor.digest = row.digest.value_or(core::Digest{});
  }
}

ReplicaItems crossings_of(const core::DumpSource& dump,
                          std::uint64_t first,
                          const std::string& part) {
  ReplicaItems items;
  CrossingReader reader;
  std::uint64_t ignored = 0;
  const std::uint32_t step = dump.op_head(first).step;
  for (std::uint64_t i = first; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.step > step) break;
    if (head.step == step && head.op->name == core::kPlacedRecord) {
      for (Crossing& crossing : reader.read(dump.op(i), ignored)) {
        if (crossing.part == part) items.push_back(std::move(crossing.item));
      }
    }
  }
  return items;
}

void ReplicaColumn::add(std::uint32_t step, const ReplicaRoot& root) {
  steps.push_back(step);
  digests.push_back(root.digest);
  ops.push_back(root.op);
  items.push_back(root.items);
}

SharedColumns::Shared SharedColumns::keep(ReplicaColumn column) {
  std::string bytes;
  const auto add = [&](const auto& values) {
    put(bytes, values.data(), std::span(values).size_bytes());
  };
  add(column.steps);
  add(column.digests);
  add(column.ops);
  add(column.items);
  const core::Digest digest = digest_of(bytes);
  const std::lock_guard lock(mutex_);
  auto& kept = columns_[digest];
  Shared known = kept.lock();
  if (!known) {
    for (auto* numbers : {&column.steps, &column.items}) numbers->shrink_to_fit();
    column.digests.shrink_to_fit();
    column.ops.shrink_to_fit();
    known = std::make_shared<const ReplicaColumn>(std::move(column));
    kept = known;
  }
  return known;
}

namespace {

/// Before the first step.
bool has_all_to_all(const core::DumpSource& dump) {
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpHead head = dump.op_head(i);
    if (head.op->name == core::kStepRecord) return false;
    if (is_all_to_all(head.op->name)) return true;
  }
  return false;
}

/// What a record of a program says.
/// @param whole  reads it
template <typename Whole>
void add_named(std::string_view name, const Whole& whole, RankReader& reader) {
  if (name == core::kReplicaRecord) reader.add_replica(whole());
  if (name == core::kStepRecord) reader.add_step(whole());
  if (name == core::kClipRecord) reader.add_clipping(whole());
  if (name == core::kScalerRecord) reader.add_scale(whole());
  if (name == core::kPlacedRecord) reader.add_placed(whole());
  if (name == core::kBatchRecord) reader.add_batch(whole());
  if (name == core::kLossRecord) reader.add_loss(whole());
}

}  // namespace

RankRoots read_rank(const core::DumpSource& dump,
                    std::uint32_t rank,
                    const Replication& replication,
                    SharedColumns& shared) {
  RankReader reader(replication, dump.manifest());
  const ParameterRows parameters(dump);
  ExchangeReader exchanges(dump, rank);
  DataOrderReader data;
  bool is_early = has_all_to_all(dump);
  if (is_early) reader.expect_experts();
  core::OpRecord record;
  const auto whole = [&](std::uint64_t op) -> const core::OpRecord& {
    dump.read_op(op, record);
    parameters.put_into(record);
    return record;
  };
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    const std::string_view name = head.op->name;
    if (head.op->seeded && is_of_model(head)) reader.add_draw(whole(i));
    is_early = is_early && name != core::kStepRecord;
    if (is_early && !core::is_named_values(head)) reader.add_early(whole(i));
    const auto exchange = exchanges.see(i, head);
    if (const auto given = exchanges.take_given()) reader.add_given(*given);
    for (const MessageContent& content : exchanges.take_contents()) reader.add_content(content);
    if (exchange) reader.add_exchange(*exchange);
    data.see(DataOrderReader::is_read(head) ? whole(i) : head);
    add_named(
        name, [&]() -> const core::OpRecord& { return whole(i); }, reader);
  }
  return reader.finish(exchanges, data.finish(), dump.manifest(), shared);
}

}  // namespace repro_check::comparators
