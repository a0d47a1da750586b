// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/records.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

/// What became of one operator. What tables are made of goes by the order.
enum class OpOutcome : std::uint8_t {
  kUnseen,  ///< not reached yet, or without a counterpart
  kEqual,
  kWithin,
  kDiverged,
  kMismatched,
  kSkipped,
  kNotJudged,
};

/// What became of the outputs of one operator; the other four add up to the first.
struct OutputTally {
  std::uint64_t outputs = 0;
  std::uint64_t tensors = 0;        ///< judged
  std::uint64_t metadata_only = 0;  ///< on one side only, or without content on both
  std::uint64_t ignored = 0;        ///< by a rule
  std::uint64_t not_judged = 0;
};

/// One matched pair, before its cause is looked for.
struct OpFindings {
  OpOutcome outcome = OpOutcome::kSkipped;
  std::vector<TensorComparison> outputs;  ///< those that are not equal
  std::vector<TensorComparison> inputs;   ///< those that are not equal
  std::vector<ScalarDifference> arguments;
  std::vector<ScalarDifference> results;
  bool input_strides_differ = false;
  bool output_strides_differ = false;
  Phrases alias_differs;        ///< the first output that shares other memory
  bool inputs_unknown = false;  ///< the content of some input is not recorded on a side
  bool bits_differ = false;     ///< some output is not bit-equal
  OutputTally tally;
  Screened screened;
  bool without_content = false;  ///< skipped: no output has any, and none was left out
  bool never_read = false;       ///< an output has content that nobody read
  bool lacks_floor = false;      ///< an output that differs has none, under the policy noise
  bool lacks_fp64 = false;       ///< one could not be held against float64, under the policy fp64
  std::string unruled;           ///< the first output no rule speaks of: `op 3 output 0`
  std::uint64_t elements = 0;    ///< of the outputs judged
  std::uint64_t bytes = 0;
  std::uint64_t values = 0;   ///< elements really compared by value: mismatches have none
  std::uint64_t zeros = 0;    ///< elements that are 0 on both sides, where known
  std::uint64_t counted = 0;  ///< elements for which that is known
  double severity = 0;

  [[nodiscard]] bool fails() const noexcept {
    return outcome == OpOutcome::kDiverged || outcome == OpOutcome::kMismatched;
  }
};

/// A matched pair of records, and what was found of it.
struct JudgedCall {
  core::OpRecord baseline;
  core::OpRecord candidate;
  OpFindings findings = {};
  std::optional<Attribution> why = {};  ///< where it fails
  bool has_inside = false;  ///< operators inside of it were recorded: what a class of tensors did
};

/// Compares two records of the same key: every output by the policy, every input by its digest,
/// every scalar exactly. Whether an input is within the policy is known only where the same pair of
/// contents was measured before.
void judge_op(JudgedCall& call, const CompareOptions& options, TensorJudge& judge);

}  // namespace repro_check::comparators
