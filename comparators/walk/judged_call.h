// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "comparators/judge/op_judge.h"
#include "comparators/report/compare_options.h"
#include "comparators/walk/walk.h"

namespace repro_check::comparators {

/// @return whether it was compared
/// @param mismatched  where results of other shapes are counted
template <typename Counts>
inline bool count_outcome(OpOutcome outcome, std::uint64_t& mismatched, Counts& counts) noexcept {
  const std::array into{&counts.not_judged,
                        &counts.equal,
                        &counts.within_policy,
                        &counts.diverged,
                        &mismatched,
                        &counts.skipped,
                        &counts.not_judged};
  ++*into[static_cast<std::size_t>(outcome)];
  const bool is_compared = outcome >= OpOutcome::kEqual && outcome <= OpOutcome::kMismatched;
  if (is_compared) ++counts.compared;
  return is_compared;
}

/// What the verdict has to know of a pair.
inline void note_obstacles(const OpFindings& findings, VerdictInput& verdict) {
  if (verdict.first_unruled.empty()) verdict.first_unruled = findings.unruled;
  verdict.lacks_floor = verdict.lacks_floor || findings.lacks_floor;
  verdict.lacks_fp64 = verdict.lacks_fp64 || findings.lacks_fp64;
  verdict.never_read = verdict.never_read || findings.never_read;
}

inline const TensorComparison* first_uncomparable(const OpFindings& findings) {
  const auto found =
      std::ranges::find(findings.outputs, TensorOutcome::kUncomparable, &TensorComparison::outcome);
  return found == findings.outputs.end() ? nullptr : &*found;
}

/// Empty where one of them is damaged, which is noted.
inline std::optional<JudgedCall> read_call(const WalkContext& context, const OpPair& pair) {
  JudgedCall call;
  const core::DumpSource* reading = &context.baseline;
  const auto damage = damage_in([&] {
    call.baseline = context.baseline.op(pair.baseline);
    lift_producers(context.pairing.baseline, call.baseline);
    reading = &context.candidate;
    call.candidate = context.candidate.op(pair.candidate);
    lift_producers(context.pairing.candidate, call.candidate);
  });
  if (!damage) return call;
  context.judge.note_damage(reading, *damage);
  return std::nullopt;
}

/// As a report has it.
inline OpDivergence to_item(JudgedCall call) {
  OpFindings& findings = call.findings;
  OpDivergence item;
  if (call.why) static_cast<Attribution&>(item) = *std::move(call.why);
  item.baseline_index = call.baseline.index;
  item.candidate_index = call.candidate.index;
  item.baseline = std::move(call.baseline);
  item.candidate = std::move(call.candidate);
  item.severity = findings.severity;
  item.outputs = std::move(findings.outputs);
  item.inputs = std::move(findings.inputs);
  for (const auto* scalars : {&findings.arguments, &findings.results}) {
    for (const ScalarDifference& scalar : *scalars) {
      // Of named values both are the same.
      std::string text = scalar.text();
      const bool is_said = std::ranges::find(item.notes, text) != item.notes.end();
      if (!is_said) item.notes.push_back(std::move(text));
    }
  }
  return item;
}

}  // namespace repro_check::comparators
