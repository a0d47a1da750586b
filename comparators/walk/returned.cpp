// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/returned.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "comparators/cause/cause.h"
#include "comparators/measure/records.h"
#include "comparators/walk/judged_call.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {
namespace {

using core::Argument;
using core::OpRecord;
using core::TensorRecord;

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

std::string made_by(const TensorRecord& tensor, const core::DumpSource& source) {
  if (tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) < source.op_count()) {
    return "made by " + op_text(source.op_head(static_cast<std::uint64_t>(tensor.producer)));
  }
  return tensor.name.empty() ? "made by no recorded operator" : tensor.name;
}

class ReturnedJudge {
 public:
  ReturnedJudge(const WalkContext& context, const Evidence& evidence)
      : context_(context), evidence_(evidence), found_(context.report.returned) {}

  void run() {
    const Pairing& pairing = context_.pairing;
    found_.baseline = pairing.baseline.returned.size();
    found_.candidate = pairing.candidate.returned.size();
    for (const OpPair& call : pairing.returned) {
      if (call.matched()) {
        take_pair(call);
      } else if (found_.baseline != 0 && found_.candidate != 0) {
        take_missing(call);
      }
    }
  }

 private:
  void take_missing(const OpPair& call) {
    ++found_.missing;
    if (found_.first) return;
    const bool here = call.baseline != kUnmatched;
    OpDivergence item;
    item.relation = Relation::kMissing;
    item.kind = DivergenceKind::kMissing;
    const std::uint32_t op = here ? call.baseline : call.candidate;
    (here ? item.baseline_index : item.candidate_index) = op;
    (here ? item.baseline : item.candidate) = evidence_.dump(here).op_head(op);
    const std::uint64_t step = shown_record(item).step;
    item.cause = {CauseKind::kMissing,
                  {Phrase("returned-alone",
                          {{"call", step + 1},
                           {"run", run_field(here)},
                           {"baseline", found_.baseline},
                           {"candidate", found_.candidate}})},
                  Phrase("do-give-calls")};
    found_.first = std::move(item);
  }

  void take_pair(const OpPair& pair) {
    std::optional<JudgedCall> read = read_call(context_, pair);
    if (!read) {
      ++found_.not_judged;
      return;
    }
    JudgedCall& call = *read;
    set_makers(call.baseline);
    judge(call);
    context_.observations.note_unwritten(call, evidence_);
    count(call);
    note_progress(call.findings);
    if (!call.findings.fails()) return;
    call.why = attribute_returned(call);
    const bool inherits = call.why->relation == Relation::kPropagated;
    if (found_.first && (inherits || found_.first->relation != Relation::kPropagated)) return;
    call.findings.arguments.clear();  // the results say the same
    found_.first = to_item(std::move(call));
  }

  /// By which rule each tensor was judged where it was made.
  void set_makers(const OpRecord& from) {
    std::map<std::string, RuleBook::Maker, std::less<>> makers;
    if (context_.judge.rules().has_rules()) {
      for (const TensorRecord& tensor : from.tensors) {
        if (!core::is_input(tensor) || tensor.producer < 0) continue;
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
        if (!core::is_output(output)) continue;
        const bool same = by_content ? output.content_key() == tensor.content_key()
                                     : output.storage == tensor.storage;
        if (!same) continue;
        TensorRecord made = output;
        return RuleBook::Maker{std::move(op), std::move(made)};
      }
    }
    return std::nullopt;
  }

  void judge(JudgedCall& call) {
    const OpRecord& from = call.baseline;
    const OpRecord& to = call.candidate;
    if (same_paths(from, to) || !is_whole(from) || !is_whole(to)) {
      return judge_op(call, context_.options, context_.judge);
    }
    std::vector<std::size_t> here;
    std::vector<std::size_t> there;
    for (std::size_t place = 0; place < from.arguments.size(); ++place) {
      const std::string& path = from.arguments[place].name;
      if (!has_path(to, path)) continue;
      here.push_back(place);
      there.push_back(place_of(to, path));
    }
    JudgedCall in_common{with_values(from, here), with_values(to, there)};
    judge_op(in_common, context_.options, context_.judge);
    call.findings = std::move(in_common.findings);
    add_one_sided(from, to, true, call.findings);
    add_one_sided(to, from, false, call.findings);
    call.findings.outcome = OpOutcome::kMismatched;
    call.findings.severity = std::numeric_limits<double>::infinity();
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

  void count(const JudgedCall& call) {
    if (!count_outcome(call.findings.outcome, found_.diverged, found_)) return;
    found_.tensors += call.findings.tally.tensors;
    for (const Argument& argument : call.baseline.arguments) {
      if (slot_of(argument.value) != nullptr) continue;
      if (!std::holds_alternative<core::Opaque>(argument.value.data)) {
        ++found_.others;
      } else if (found_.opaque.size() < kShownOpaque) {
        found_.opaque.push_back(argument.name);
      }
    }
  }

  void note_progress(const OpFindings& findings) {
    note_obstacles(findings, context_.verdict);
    const TensorComparison* output = first_uncomparable(findings);
    Phrases& first = context_.verdict.returned_not_judged;
    if (first.empty() && output != nullptr) {
      first.push_back(
          Phrase("slot-note", {{"slot", output->baseline.slot}, {"note", output->note}}));
    }
  }

  Attribution attribute_returned(JudgedCall& call) {
    OpFindings& findings = call.findings;
    for (TensorComparison& input : findings.inputs) {
      // The same tensor was measured as an output.
      for (const TensorComparison& output : findings.outputs) {
        if (output.baseline.slot == input.baseline.slot) input.metrics = output.metrics;
      }
    }
    Attribution why = attribute(call, evidence_);
    if (has_divergent_producer(why)) return why;
    if (std::optional<Cause> own = own_cause(call)) {
      name_told(evidence_, *own);
      const bool mismatched = findings.outcome == OpOutcome::kMismatched;
      why = {mismatched ? Relation::kMismatch : Relation::kOrigin,
             mismatched ? DivergenceKind::kMismatch : DivergenceKind::kOrigin,
             {},
             std::move(*own)};
    }
    return why;
  }

  [[nodiscard]] bool has_divergent_producer(const Attribution& why) const {
    return std::ranges::any_of(why.producers, [this](std::uint64_t op) {
      return op < evidence_.outcomes.size() && !is_equal(op);
    });
  }

  static Phrase value_note(const ScalarDifference& value) {
    return Phrase("value-note", {{"value", value.text()}});
  }

  [[nodiscard]] std::optional<Cause> own_cause(const JudgedCall& call) const {
    const OpRecord& from = call.baseline;
    const OpRecord& to = call.candidate;
    const OpFindings& findings = call.findings;
    if (!same_paths(from, to)) {
      const auto first = std::ranges::find_if(findings.results, [&](const auto& result) {
        return !has_path(from, result.name) || !has_path(to, result.name);
      });
      return Cause(CauseKind::kOtherStructure,
                   {first == findings.results.end() ? Phrase("returned-in-other-order")
                                                    : value_note(*first)});
    }
    if (auto other = other_value(findings)) return other;
    if (std::ranges::any_of(findings.inputs, is_one_sided) && !findings.results.empty()) {
      return Cause(CauseKind::kOtherValue, {value_note(findings.results.front())});
    }
    if (findings.inputs.empty() && !findings.results.empty()) {
      Phrase computed = value_note(findings.results.front());
      computed.key = "computed-between";
      return Cause(CauseKind::kOutsideOperators, {std::move(computed)});
    }
    return std::nullopt;
  }

  /// Under one path the two sides return what different operators made, or different inputs.
  [[nodiscard]] std::optional<Cause> other_value(const OpFindings& findings) const {
    for (const TensorComparison& input : findings.inputs) {
      const std::int64_t here = input.baseline.producer;
      const std::int64_t there = input.candidate.producer;
      const auto counterpart = counterpart_in(context_.pairing.baseline_of, there);
      const bool same = here >= 0 && there >= 0
                            ? counterpart && std::cmp_equal(*counterpart, here)
                            : here < 0 && there < 0 && input.baseline.name == input.candidate.name;
      if (same || is_one_sided(input)) continue;
      // What no operator of the trace made is looked at elsewhere.
      const bool both_equal = (here < 0 || is_equal(static_cast<std::uint64_t>(here))) &&
                              (there < 0 || (counterpart && is_equal(*counterpart)));
      return Cause(CauseKind::kOtherValue,
                   {Phrase("returned-by-others",
                           {{"slot", input.baseline.slot},
                            {"baseline", made_by(input.baseline, context_.baseline)},
                            {"candidate", made_by(input.candidate, context_.candidate)},
                            {"are_equal", both_equal}})},
                   Phrase("do-compare-returned", {{"are_equal", both_equal}}));
    }
    return std::nullopt;
  }

  /// Of an operator of the baseline, where it was made.
  [[nodiscard]] bool is_equal(std::uint64_t op) const {
    return evidence_.outcomes.at(op) == OpOutcome::kEqual;
  }

  static bool is_one_sided(const TensorComparison& tensor) {
    return tensor.baseline.slot.empty() || tensor.candidate.slot.empty();
  }

  WalkContext context_;
  const Evidence& evidence_;
  ReturnedValues& found_;
};

}  // namespace

void judge_returned(const WalkContext& context, const Evidence& evidence) {
  ReturnedJudge(context, evidence).run();
}

}  // namespace repro_check::comparators
