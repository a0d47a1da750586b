// SPDX-License-Identifier: Apache-2.0
#include "comparators/blocks/blocks.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/tensor/unread.h"
#include "core/trace/block_row.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Numbers for paths and names, the same for both dumps.
class Names {
 public:
  std::uint32_t number(const std::string& name) {
    const auto [known, is_new] =
        numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size()));
    // So end the paths of blocks that a thread beside the main one calls.
    if (is_new) of_threads_.push_back(name.find('@') != std::string::npos);
    return known->second;
  }
  [[nodiscard]] bool is_of_thread(std::uint32_t number) const { return of_threads_[number]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<bool> of_threads_;
};

/// A call of a block in few bytes, or a parameter behind a step.
struct Border {
  std::uint32_t step = 0;
  core::Phase phase = core::Phase::kForward;
  std::uint32_t path = 0;
  std::uint32_t call = 0;
  std::optional<core::Digest> in;
  std::optional<core::Digest> out;

  [[nodiscard]] auto key() const { return std::tuple(step, phase, path, call); }
};

std::vector<Border> read_borders(const core::DumpSource& dump, Names& names) {
  std::vector<Border> borders;
  borders.reserve(dump.block_count());
  for (std::uint64_t i = 0; i < dump.block_count(); ++i) {
    const core::BlockRow row = dump.block(i);
    borders.push_back({row.step, row.phase, names.number(row.path), row.call, row.in, row.out});
  }
  return borders;
}

std::vector<Border> read_parameters(const core::DumpSource& dump, Names& names) {
  std::vector<Border> read;
  read.reserve(dump.parameter_count());
  for (std::uint64_t i = 0; i < dump.parameter_count(); ++i) {
    const core::ParameterRow row = dump.parameter(i);
    read.push_back({row.step, core::Phase::kOptimizer, names.number(row.name), 0, {}, row.digest});
  }
  return read;
}

/// Which of `theirs` belongs to each of `ours`, and the other way round; kNone where none does. Of
/// equal keys, which no recorder writes, the first belongs to the first.
std::pair<std::vector<std::size_t>, std::vector<std::size_t>> pair_up(
    const std::vector<Border>& ours, const std::vector<Border>& theirs) {
  const auto by_key = [](const std::vector<Border>& borders) {
    std::vector<std::size_t> order(borders.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t at) { return borders[at].key(); });
    return order;
  };
  std::vector<std::size_t> to_theirs(ours.size(), kNone);
  std::vector<std::size_t> to_ours(theirs.size(), kNone);
  const std::vector<std::size_t> left = by_key(ours);
  const std::vector<std::size_t> right = by_key(theirs);
  for (std::size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const auto order = ours[left[i]].key() <=> theirs[right[j]].key();
    // NOLINTBEGIN(modernize-use-nullptr): clang-tidy 14 misreads comparisons with 0
    if (order == 0) {
      to_theirs[left[i]] = right[j];
      to_ours[right[j]] = left[i];
    }
    if (order <= 0) ++i;
    if (order >= 0) ++j;
    // NOLINTEND(modernize-use-nullptr)
  }
  return {std::move(to_theirs), std::move(to_ours)};
}

BlockDivergence::Input input_of(const Border& baseline, const Border& candidate) {
  if (!baseline.in || !candidate.in) return BlockDivergence::Input::kUnknown;
  return *baseline.in == *candidate.in ? BlockDivergence::Input::kEqual
                                       : BlockDivergence::Input::kDiffers;
}

bool is_loss(const core::OpHead& record) {
  return record.op != nullptr && record.op->name == core::kLossRecord;
}

class BlockComparer {
 public:
  BlockComparer(const core::DumpSource& baseline, const core::DumpSource& candidate)
      : baseline_(baseline), candidate_(candidate) {}

  BlockComparison run() {
    compare_borders();
    compare_parameters();
    for (const core::DumpSource* dump : {&baseline_, &candidate_}) add_summary(*dump);
    for (std::uint64_t i = 0; i < baseline_.op_count(); ++i) {
      const core::OpHead record = baseline_.op_head(i);
      result_.losses += is_loss(record) ? 1U : 0U;
      result_.exchanges += record.op && record.op->name == core::kCollectiveRecord ? 1U : 0U;
      result_.updates += record.op && record.op->name == core::kStepRecord ? 1U : 0U;
    }
    return std::move(result_);
  }

 private:
  /// Places among the borders of a side; kNone where there is none.
  struct First {
    std::size_t differing = kNone;
    std::size_t agreed = kNone;  ///< of the baseline, the last before it that agreed
  };

  void compare_borders() {
    Names names;
    const std::vector<Border> ours = read_borders(baseline_, names);
    const std::vector<Border> theirs = read_borders(candidate_, names);
    const auto [to_theirs, to_ours] = pair_up(ours, theirs);
    const First first = compare_pairs(ours, theirs, to_theirs, names);
    const First extra = first_extra(theirs, to_ours, first.differing, names);
    if (extra.differing != kNone) {
      lead_with(candidate_, extra).of_baseline = false;
    } else if (first.differing != kNone) {
      BlockDivergence& lead = lead_with(baseline_, first);
      const std::size_t other = to_theirs[first.differing];
      if (other == kNone) return;
      lead.kind = BlockDivergence::Kind::kOutput;
      lead.input = input_of(ours[first.differing], theirs[other]);
      lead.counterpart = other;
      lead.other_in = theirs[other].in;
      lead.other_out = theirs[other].out;
    }
  }

  /// Judges every border of the baseline.
  First compare_pairs(const std::vector<Border>& ours,
                      const std::vector<Border>& theirs,
                      const std::vector<std::size_t>& to_theirs,
                      const Names& names) {
    First first;
    std::set<std::uint32_t> blocks;
    std::set<std::uint32_t> steps;
    for (std::size_t at = 0; at < ours.size(); ++at) {
      bool agrees = false;
      if (to_theirs[at] != kNone) {
        agrees = judge(at, ours[at], theirs[to_theirs[at]]);
        blocks.insert(ours[at].path);
        steps.insert(ours[at].step);
      } else {
        ++result_.missing;
      }
      if (!agrees && names.is_of_thread(ours[at].path)) {
        ++result_.of_threads;
      } else if (first.differing == kNone) {
        (agrees ? first.agreed : first.differing) = at;
      }
    }
    result_.blocks = blocks.size();
    result_.steps = steps.size();
    return first;
  }

  /// Calls of the candidate alone stand behind the one before them that both made.
  /// @param end  of the baseline: one behind it is not the first
  First first_extra(const std::vector<Border>& theirs,
                    const std::vector<std::size_t>& to_ours,
                    std::size_t end,
                    const Names& names) {
    First extra;
    std::size_t anchor = kNone;
    for (std::size_t at = 0; at < theirs.size(); ++at) {
      if (to_ours[at] != kNone) {
        anchor = to_ours[at];
        continue;
      }
      ++result_.missing;
      if (names.is_of_thread(theirs[at].path)) {
        ++result_.of_threads;
      } else if (extra.differing == kNone && (end == kNone || anchor == kNone || anchor < end)) {
        extra = {at, anchor};
      }
    }
    return extra;
  }

  /// @param side  that has the border which differs
  BlockDivergence& lead_with(const core::DumpSource& side, const First& first) {
    BlockDivergence& lead = result_.first.emplace();
    lead.of_baseline = true;
    lead.position = first.differing;
    lead.border = side.block(first.differing);
    if (first.agreed != kNone) lead.agreed = baseline_.block(first.agreed);
    return lead;
  }

  /// Whether there are borders that its recorder could not read, though it knew how.
  static bool left_unread(const core::DumpSource& dump) {
    const auto& blocks = dump.manifest().trace.blocks;
    return blocks &&
           std::ranges::find(blocks->unopened, core::kUnreadContent, &core::UnopenedType::type) !=
               blocks->unopened.end();
  }

  /// @return whether nothing is wrong with the pair
  bool judge(std::size_t at, const Border& ours, const Border& theirs) {
    // On one side alone it is another structure, unless a device failed there.
    if ((!ours.out && (!theirs.out || left_unread(baseline_))) ||
        (!theirs.out && left_unread(candidate_))) {
      if (result_.unread++ == 0) result_.first_unread = baseline_.block(at).path;
      return true;
    }
    ++result_.compared;
    if (ours.out == theirs.out) return true;
    ++result_.differing;
    return false;
  }

  void compare_parameters() {
    Names names;
    const std::vector<Border> ours = read_parameters(baseline_, names);
    const std::vector<Border> theirs = read_parameters(candidate_, names);
    const auto [to_theirs, to_ours] = pair_up(ours, theirs);
    std::map<std::uint32_t, std::uint32_t> read_equal;             // the last step, by name
    std::map<std::uint32_t, std::optional<std::uint32_t>> before;  // the same, before the first
    for (std::size_t at = 0; at < ours.size(); ++at) {
      const std::size_t other = to_theirs[at];
      const bool is_before = !result_.first_parameter &&
                             (!result_.first || ours[at].step < result_.first->border.step);
      std::optional<std::uint32_t>& settled = before[ours[at].path];
      if (other == kNone || !ours[at].out || !theirs[other].out) {
        ++result_.parameters_unread;
        continue;
      }
      ++result_.parameters;
      if (ours[at].out == theirs[other].out) {
        read_equal[ours[at].path] = ours[at].step;
        if (is_before) settled = ours[at].step;
        continue;
      }
      if (result_.parameters_differing++ != 0) continue;
      const core::ParameterRow row = baseline_.parameter(at);
      ParameterDivergence& first = result_.first_parameter.emplace();
      first.step = row.step;
      first.name = row.name;
      first.baseline = row.digest;
      first.candidate = theirs[other].out;
      const auto known = read_equal.find(ours[at].path);
      if (known != read_equal.end()) first.read_equal = known->second;
    }
    result_.parameters_unread += static_cast<std::uint64_t>(std::ranges::count(to_ours, kNone));
    // Nothing, which is less than every step, where one of them was never read before.
    const auto least =
        std::ranges::min_element(before, {}, [](const auto& of) { return of.second; });
    if (least != before.end()) result_.settled = least->second;
  }

  void add_summary(const core::DumpSource& dump) {
    const core::BlockSummary told = dump.manifest().trace.blocks.value_or(core::BlockSummary{});
    const auto add = [](const std::string& name, std::vector<std::string>& to) {
      if (std::ranges::find(to, name) == to.end()) to.push_back(name);
    };
    for (const core::UnopenedType& type : told.unopened) add(type.type, result_.unopened);
    for (const std::string& path : told.not_seen) add(path, result_.not_seen);
    result_.every = std::max(result_.every, told.every);
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  BlockComparison result_;
};

/// What comes first in a step: batches, borders, losses, what a step leaves, parameters.
enum class Order : std::uint8_t {
  kBatch,
  kForward,
  kLoss,
  kBackward,
  kStep,
  kParameters,
  kReturned
};
using Moment = std::pair<std::uint32_t, Order>;

Order order_of(core::Phase phase) noexcept {
  switch (phase) {
    case core::Phase::kSetup:
    case core::Phase::kData:
      return Order::kBatch;
    case core::Phase::kForward:
    case core::Phase::kEval:
      return Order::kForward;
    case core::Phase::kLoss:
      return Order::kLoss;
    case core::Phase::kBackward:
    case core::Phase::kRecompute:
    case core::Phase::kReduce:
      return Order::kBackward;
    case core::Phase::kOptimizer:
      return Order::kStep;
  }
  return Order::kStep;
}

Moment moment_of(const core::OpRecord& record) {
  if (core::is_returned(record)) return {record.step, Order::kReturned};
  // The loss is the root of the backward pass, in which it is recorded.
  return {record.step, is_loss(record) ? Order::kLoss : order_of(record.phase)};
}

core::OpRecord record_of(std::string_view name,
                         std::uint32_t step,
                         core::Phase phase,
                         std::string path) {
  core::OpRecord record;
  record.op =
      std::make_shared<const core::OperatorInfo>(core::OperatorInfo{std::string(name), "", false});
  auto site = std::make_shared<core::CallSite>();
  site->module_path = std::move(path);
  record.site = std::move(site);
  record.step = step;
  record.phase = phase;
  return record;
}

/// @param slot  `out`, or the name of a parameter
TensorComparison tensor_of(core::TensorRole role,
                           const std::string& slot,
                           const std::optional<core::Digest>& baseline,
                           const std::optional<core::Digest>& candidate) {
  TensorComparison tensor;
  tensor.role = role;
  tensor.outcome = TensorOutcome::kBeyond;
  const auto fill = [&](core::TensorRecord& side, const std::optional<core::Digest>& digest) {
    side.role = role;
    side.slot = slot;
    side.state = digest ? core::ContentState::kHashed : core::ContentState::kNone;
    side.digest = digest.value_or(core::Digest{});
  };
  fill(tensor.baseline, baseline);
  fill(tensor.candidate, candidate);
  return tensor;
}

/// What the borders around it say of where it began.
Cause cause_of(const BlockDivergence& block) {
  using Input = BlockDivergence::Input;
  const bool is_inherited = block.input == Input::kDiffers;
  Cause cause(is_inherited ? CauseKind::kPropagated : CauseKind::kNone, {});
  cause.advice = Phrase("do-record-operators");
  if (block.kind == BlockDivergence::Kind::kMissing) {
    cause.evidence.push_back(Phrase("border-one-run", {{"run", run_field(block.of_baseline)}}));
  } else if (is_inherited) {
    cause.evidence.emplace_back("border-inherited");
  } else {
    cause.evidence.emplace_back(block.input == Input::kEqual ? "border-inside"
                                                             : "border-input-unknown");
  }
  if (!block.agreed) {
    cause.evidence.emplace_back("border-none-agreed");
    return cause;
  }
  cause.evidence.push_back(Phrase("border-agreed",
                                  {{"block", block.agreed->path},
                                   {"step", block.agreed->step},
                                   {"phase", std::string(core::name_of(block.agreed->phase))},
                                   {"call", block.agreed->call}}));
  return cause;
}

Cause cause_of(const ParameterDivergence& parameter) {
  Cause cause(CauseKind::kNone, {});
  cause.advice = Phrase("do-record-operators");
  cause.evidence.emplace_back("parameter-behind-borders");
  if (parameter.read_equal) {
    cause.evidence.push_back(Phrase("parameter-read-equal", {{"step", *parameter.read_equal}}));
  } else {
    cause.evidence.emplace_back("parameter-not-read");
  }
  return cause;
}

OpDivergence shown(const BlockDivergence& block) {
  OpDivergence shown;
  const core::BlockRow& row = block.border;
  const core::OpRecord record = record_of(core::kBlockRecord, row.step, row.phase, row.path);
  const bool is_pair = block.kind == BlockDivergence::Kind::kOutput;
  if (is_pair || block.of_baseline) {
    shown.baseline = record;
    shown.baseline_index = block.position;
  }
  if (is_pair || !block.of_baseline) {
    shown.candidate = record;
    shown.candidate_index = is_pair ? block.counterpart : block.position;
  }
  shown.occurrence = row.call;
  shown.cause = cause_of(block);
  shown.kind = is_pair ? DivergenceKind::kOrigin : DivergenceKind::kMissing;
  shown.relation = !is_pair                                          ? Relation::kMissing
                   : block.input == BlockDivergence::Input::kDiffers ? Relation::kPropagated
                                                                     : Relation::kOrigin;
  if (!is_pair) return shown;
  shown.matched_by = MatchedBy::kPosition;
  shown.outputs.push_back(tensor_of(core::TensorRole::kOutput, "out", row.out, block.other_out));
  if (block.input == BlockDivergence::Input::kDiffers) {
    shown.inputs.push_back(tensor_of(core::TensorRole::kInput, "in", row.in, block.other_in));
  }
  return shown;
}

OpDivergence shown(const ParameterDivergence& parameter) {
  OpDivergence shown;
  shown.baseline = shown.candidate =
      record_of(core::kParametersRecord, parameter.step, core::Phase::kOptimizer, "");
  shown.baseline_index = shown.candidate_index = 0;
  shown.cause = cause_of(parameter);
  shown.matched_by = MatchedBy::kPosition;
  shown.outputs.push_back(tensor_of(core::TensorRole::kOutput,
                                    std::string(core::kParameterPrefix) + parameter.name,
                                    parameter.baseline,
                                    parameter.candidate));
  return shown;
}

/// A loss that leads, or what a rank hands to others: the borders before it agree, and nothing
/// recorded says what made it of them.
void explain_record(Report& report) {
  if (!report.first_divergence) return;
  const OpDivergence& lead = *report.first_divergence;
  const core::OpRecord& record = shown_record(lead);
  const bool hands_over = record.op && core::is_of_ranks(*record.op) && !lead.inputs.empty();
  if (!hands_over && !is_loss(record)) return;
  Phrase why(hands_over ? "exchange-behind-borders" : "loss-behind-borders");
  report.first_divergence->cause =
      Cause(CauseKind::kNone, {std::move(why)}, Phrase("do-record-operators"));
}

}  // namespace

BlockComparison compare_blocks(const core::DumpSource& baseline,
                               const core::DumpSource& candidate) {
  return BlockComparer(baseline, candidate).run();
}

void lead_with_block(Report& report) {
  if (!report.blocks) return;
  if (!report.blocks->parts()) return explain_record(report);
  std::optional<OpDivergence> lead;
  Moment when;
  if (report.blocks->first && report.blocks->borders_apart() != 0) {
    const core::BlockRow& row = report.blocks->first->border;
    lead = shown(*report.blocks->first);
    when = {row.step, order_of(row.phase)};
  }
  if (const auto& parameter = report.blocks->first_parameter) {
    const Moment of_parameter{parameter->step, Order::kParameters};
    if (!lead || of_parameter < when) {
      lead = shown(*parameter);
      when = of_parameter;
    }
  }
  if (report.first_divergence) {
    if (moment_of(shown_record(*report.first_divergence)) < when) return explain_record(report);
    report.divergences.insert(report.divergences.begin(), *std::move(report.first_divergence));
  }
  // No record says what made a loss: behind a border that differs it follows from that.
  for (OpDivergence& op : report.divergences) {
    if (op.relation != Relation::kOrigin) continue;
    op.relation = Relation::kPropagated;
    op.cause = Cause(CauseKind::kPropagated, {Phrase("behind-border")});
  }
  forget_origins(report);
  report.first_bit_difference.reset();
  report.first_divergence = std::move(lead);
  report.kind = report.first_divergence->kind;
  ++report.divergences_total;
}

core::OpRange steps_to_open(const Report& report) {
  static const BlockComparison nothing;
  const BlockComparison& blocks = report.blocks ? *report.blocks : nothing;
  const core::OpRecord& record = shown_record(*report.first_divergence);
  const std::uint64_t every = std::max<std::uint64_t>(1, blocks.every);
  core::OpRange steps{record.step - std::min<std::uint64_t>(record.step, every), record.step};
  if (!core::is_of_blocks(record)) return steps;
  const std::uint64_t unsettled = blocks.settled ? *blocks.settled + std::uint64_t{1} : 0;
  if (blocks.parameters != 0) steps.first = std::min(steps.first, unsettled);
  if (record.op->name == core::kBlockRecord && blocks.first) {
    const auto& agreed = blocks.first->agreed;
    steps.first = std::min<std::uint64_t>(steps.first, agreed ? agreed->step : 0);
  }
  return steps;
}

bool is_opened(const Report& report, const core::OpRecord& record) {
  const core::OpRecord& lead = shown_record(*report.first_divergence);
  return record.step >= steps_to_open(report).first && moment_of(record) <= moment_of(lead);
}

}  // namespace repro_check::comparators
