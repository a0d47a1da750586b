// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/returned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comparators/measure/scalars.h"
#include "comparators/report/op_text.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

using core::Argument;
using core::OpRecord;
using core::TensorRecord;
using core::TensorRole;

constexpr std::size_t kShownOpaque = 16;

const core::TensorSlot* slot_of(const core::Value& value) {
  return std::get_if<core::TensorSlot>(&value.data);
}

std::size_t place_of(const OpRecord& record, std::string_view path) {
  const auto found = std::ranges::find(record.arguments, path, &Argument::name);
  return static_cast<std::size_t>(found - record.arguments.begin());
}

bool has_path(const OpRecord& record, std::string_view path) {
  return place_of(record, path) < record.arguments.size();
}

/// Not of a baseline of a gate, which knows no more than the text of what is no tensor.
bool is_whole(const OpRecord& record) { return record.arguments.size() == record.results.size(); }

bool same_paths(const OpRecord& left, const OpRecord& right) {
  return std::ranges::equal(left.arguments, right.arguments, {}, &Argument::name, &Argument::name);
}

/// The tensor in `slot` and its parts, which follow it.
void copy_tensor(const OpRecord& from, std::size_t slot, OpRecord& into) {
  if (slot >= from.tensors.size()) return;
  const std::string part = from.tensors[slot].slot + ".";
  do {
    into.tensors.push_back(from.tensors[slot]);
    ++slot;
  } while (slot < from.tensors.size() && from.tensors[slot].slot.starts_with(part));
}

/// The record with the given paths alone, in their order.
OpRecord with_paths(const OpRecord& record, const std::vector<std::string>& paths) {
  OpRecord reduced = head_of(record);
  const auto copy = [&](core::Value value) {
    if (auto* slot = std::get_if<core::TensorSlot>(&value.data)) {
      const std::size_t from = slot->index;
      slot->index = static_cast<std::uint32_t>(reduced.tensors.size());
      copy_tensor(record, from, reduced);
    }
    return value;
  };
  for (const std::string& path : paths) {
    reduced.arguments.push_back({path, copy(record.arguments[place_of(record, path)].value)});
  }
  for (const std::string& path : paths) {
    reduced.results.push_back(copy(record.results[place_of(record, path)]));
  }
  return reduced;
}

/// A path under which the two sides return what different operators made, or different inputs.
struct OtherValue {
  std::string path;
  std::string baseline;
  std::string candidate;
  bool both_equal = false;  ///< where they were made
};

std::string made_by(const TensorRecord& tensor, const core::DumpSource& source) {
  if (tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) < source.op_count()) {
    return "made by " + op_text(source.op_head(static_cast<std::uint64_t>(tensor.producer)));
  }
  return tensor.name.empty() ? "made by no recorded operator" : tensor.name;
}

class ReturnedJudge {
 public:
  ReturnedJudge(const WalkContext& context, const Evidence& evidence, bool other_device)
      : context_(context),
        evidence_(evidence),
        other_device_(other_device),
        found_(context.report.returned) {}

  void run() {
    const Pairing& pairing = context_.pairing;
    found_.baseline = pairing.baseline.returned.size();
    found_.candidate = pairing.candidate.returned.size();
    for (const Pairing::Returned& call : pairing.returned) {
      if (call.baseline != kUnmatched && call.candidate != kUnmatched) {
        take_pair(call);
      } else if (found_.baseline != 0 && found_.candidate != 0) {
        take_missing(call);
      }
    }
  }

 private:
  void take_missing(const Pairing::Returned& call) {
    ++found_.missing;
    if (found_.first) return;
    const bool here = call.baseline != kUnmatched;
    OpDivergence item;
    item.relation = Relation::kMissing;
    item.kind = DivergenceKind::kMissing;
    if (here) {
      item.baseline_index = call.baseline;
      item.baseline = context_.baseline.op_head(call.baseline);
    } else {
      item.candidate_index = call.candidate;
      item.candidate = context_.candidate.op_head(call.candidate);
    }
    const std::uint64_t step = (here ? item.baseline : item.candidate).step;
    item.cause = {CauseKind::kMissing,
                  fmt::format("call {} returned in the {} alone: {} against {}",
                              step + 1,
                              here ? "baseline" : "candidate",
                              counted(found_.baseline, "call"),
                              found_.candidate),
                  "give both runs the same \"calls\""};
    found_.first = std::move(item);
  }

  void take_pair(const Pairing::Returned& call) {
    OpRecord from;
    OpRecord to;
    if (!read_pair(context_, call.baseline, call.candidate, from, to)) {
      ++found_.not_judged;
      return;
    }
    set_makers(from);
    OpFindings findings = judge(from, to);
    context_.observations.note_unwritten(from, to, evidence_);
    count(from, findings);
    note_progress(findings);
    if (!findings.fails()) return;
    Attribution why = attribute_returned(from, to, findings);
    const bool inherits = why.relation == Relation::kPropagated;
    if (found_.first && (inherits || found_.first->relation != Relation::kPropagated)) return;
    findings.arguments.clear();  // the results say the same
    found_.first = to_item(from, to, std::move(findings), std::move(why));
  }

  /// By which rule each tensor was judged where it was made.
  void set_makers(const OpRecord& from) {
    std::map<std::string, RuleBook::Maker, std::less<>> makers;
    if (context_.judge.rules().has_rules()) {
      for (const TensorRecord& tensor : from.tensors) {
        if (tensor.role != TensorRole::kInput || tensor.producer < 0) continue;
        if (auto maker = maker_of(tensor)) makers.insert_or_assign(tensor.slot, std::move(*maker));
      }
    }
    context_.judge.rules().set_makers(std::move(makers));
  }

  [[nodiscard]] std::optional<RuleBook::Maker> maker_of(const TensorRecord& tensor) const {
    const auto producer = static_cast<std::uint64_t>(tensor.producer);
    if (producer >= context_.baseline.op_count()) return std::nullopt;
    OpRecord op = context_.baseline.op(producer);
    if (core::is_returned(op)) return std::nullopt;
    for (const bool by_content : {true, false}) {
      for (const TensorRecord& output : op.tensors) {
        if (output.role != TensorRole::kOutput) continue;
        const bool same = by_content ? output.content_key() == tensor.content_key()
                                     : output.storage == tensor.storage;
        if (!same) continue;
        TensorRecord made = output;
        return RuleBook::Maker{std::move(op), std::move(made)};
      }
    }
    return std::nullopt;
  }

  OpFindings judge(const OpRecord& from, const OpRecord& to) {
    if (same_paths(from, to) || !is_whole(from) || !is_whole(to)) {
      return judge_op(from, to, context_.options, other_device_, context_.judge);
    }
    std::vector<std::string> common;
    for (const Argument& argument : from.arguments) {
      if (has_path(to, argument.name)) common.push_back(argument.name);
    }
    OpFindings findings = judge_op(with_paths(from, common),
                                   with_paths(to, common),
                                   context_.options,
                                   other_device_,
                                   context_.judge);
    add_one_sided(from, to, true, findings);
    add_one_sided(to, from, false, findings);
    findings.outcome = OpOutcome::kMismatched;
    findings.severity = std::numeric_limits<double>::infinity();
    return findings;
  }

  /// What `record` holds under paths that `other` does not have.
  static void add_one_sided(const OpRecord& record,
                            const OpRecord& other,
                            bool in_baseline,
                            OpFindings& findings) {
    for (std::size_t i = 0; i < record.arguments.size(); ++i) {
      const std::string& path = record.arguments[i].name;
      if (has_path(other, path)) continue;
      const std::string text = short_text(record.results[i]);
      findings.results.push_back(
          {path, in_baseline ? text : "nothing", in_baseline ? "nothing" : text, true});
    }
  }

  void count(const OpRecord& from, const OpFindings& findings) {
    switch (findings.outcome) {
      case OpOutcome::kEqual:
        ++found_.equal;
        break;
      case OpOutcome::kWithin:
        ++found_.within_policy;
        break;
      case OpOutcome::kDiverged:
      case OpOutcome::kMismatched:
        ++found_.diverged;
        break;
      case OpOutcome::kSkipped:
        ++found_.skipped;
        return;
      default:
        ++found_.not_judged;
        return;
    }
    ++found_.compared;
    found_.tensors += findings.tally.tensors;
    for (const Argument& argument : from.arguments) {
      if (slot_of(argument.value) != nullptr) continue;
      if (!std::holds_alternative<core::Opaque>(argument.value.data)) {
        ++found_.others;
      } else if (found_.opaque.size() < kShownOpaque) {
        found_.opaque.push_back(argument.name);
      }
    }
  }

  void note_progress(const OpFindings& findings) {
    VerdictInput& verdict = context_.verdict;
    if (verdict.first_unruled.empty()) verdict.first_unruled = findings.unruled;
    verdict.lacks_floor = verdict.lacks_floor || findings.lacks_floor;
    verdict.lacks_fp64 = verdict.lacks_fp64 || findings.lacks_fp64;
    if (!verdict.returned_not_judged.empty()) return;
    for (const TensorComparison& output : findings.outputs) {
      if (output.outcome != TensorOutcome::kUncomparable) continue;
      verdict.returned_not_judged = fmt::format("{}: {}", output.baseline.slot, output.note);
      return;
    }
  }

  Attribution attribute_returned(const OpRecord& from, const OpRecord& to, OpFindings& findings) {
    for (TensorComparison& input : findings.inputs) {
      // The same tensor was measured as an output.
      for (const TensorComparison& output : findings.outputs) {
        if (output.baseline.slot == input.baseline.slot) input.metrics = output.metrics;
      }
    }
    Attribution why = attribute(from, to, findings, evidence_);
    if (has_divergent_producer(why)) return why;
    if (std::optional<Cause> own = own_cause(from, to, findings)) {
      why.kind = findings.outcome == OpOutcome::kMismatched ? DivergenceKind::kMismatch
                                                            : DivergenceKind::kOrigin;
      why.relation =
          findings.outcome == OpOutcome::kMismatched ? Relation::kMismatch : Relation::kOrigin;
      why.producers.clear();
      why.cause = std::move(*own);
    }
    return why;
  }

  [[nodiscard]] bool has_divergent_producer(const Attribution& why) const {
    return std::ranges::any_of(why.producers, [this](std::uint64_t op) {
      return op < evidence_.outcomes.size() && evidence_.outcomes[op] != OpOutcome::kEqual;
    });
  }

  [[nodiscard]] std::optional<Cause> own_cause(const OpRecord& from,
                                               const OpRecord& to,
                                               const OpFindings& findings) const {
    if (!same_paths(from, to)) {
      const ScalarDifference* first = nullptr;
      for (const ScalarDifference& result : findings.results) {
        if (!has_path(from, result.name) || !has_path(to, result.name)) first = &result;
        if (first != nullptr) break;
      }
      return Cause(CauseKind::kOtherStructure,
                   first == nullptr ? "the same values come back in another order" : first->text());
    }
    if (auto other = other_value(findings)) {
      return Cause(CauseKind::kOtherValue,
                   fmt::format("{} is {} in the baseline and {} in the candidate{}",
                               other->path,
                               other->baseline,
                               other->candidate,
                               other->both_equal ? "; each is bit-equal where it was made" : ""),
                   std::string("compare what the two programs return, and in which order") +
                       (other->both_equal ? "; no operator is at fault" : ""));
    }
    if (std::ranges::any_of(findings.inputs, is_one_sided) && !findings.results.empty()) {
      return Cause(CauseKind::kOtherValue, findings.results.front().text());
    }
    if (findings.inputs.empty() && !findings.results.empty()) {
      return Cause(CauseKind::kOutsideOperators,
                   fmt::format("{}; no operator returned it: the program computed it between "
                               "operators",
                               findings.results.front().text()));
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<OtherValue> other_value(const OpFindings& findings) const {
    const auto& counterpart = context_.pairing.candidate_of;
    for (const TensorComparison& input : findings.inputs) {
      const std::int64_t here = input.baseline.producer;
      const std::int64_t there = input.candidate.producer;
      const bool same = here >= 0 && there >= 0
                            ? std::cmp_less(here, counterpart.size()) &&
                                  std::cmp_equal(counterpart[static_cast<std::size_t>(here)], there)
                            : here < 0 && there < 0 && input.baseline.name == input.candidate.name;
      if (same || is_one_sided(input)) continue;
      return OtherValue{input.baseline.slot,
                        made_by(input.baseline, context_.baseline),
                        made_by(input.candidate, context_.candidate),
                        is_equal(here) && is_equal(baseline_of(there))};
    }
    return std::nullopt;
  }

  /// Of an operator of the candidate.
  [[nodiscard]] std::int64_t baseline_of(std::int64_t producer) const {
    const auto& counterpart = context_.pairing.baseline_of;
    if (producer < 0 || std::cmp_greater_equal(producer, counterpart.size())) return producer;
    return counterpart[static_cast<std::size_t>(producer)];
  }

  /// What no operator of the trace made is looked at elsewhere.
  [[nodiscard]] bool is_equal(std::int64_t producer) const {
    return producer < 0 ||
           (std::cmp_less(producer, evidence_.outcomes.size()) &&
            evidence_.outcomes[static_cast<std::size_t>(producer)] == OpOutcome::kEqual);
  }

  static bool is_one_sided(const TensorComparison& tensor) {
    return tensor.baseline.slot.empty() || tensor.candidate.slot.empty();
  }

  WalkContext context_;
  const Evidence& evidence_;
  bool other_device_;
  ReturnedValues& found_;
};

}  // namespace

void judge_returned(const WalkContext& context, const Evidence& evidence, bool other_device) {
  ReturnedJudge(context, evidence, other_device).run();
}

}  // namespace repro_check::comparators::detail
