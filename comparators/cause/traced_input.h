// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comparators/cause/cause.h"

namespace repro_check::comparators {

/// Where a differing input came from, by the cause that this is of what the operator returns:
/// kPropagated of an operator whose output diverged, is missing, or was not judged; kAmplified of
/// one whose output passed although it differs; kReceived of a collective or a message, which is
/// recorded where it is read; kUnobservedWrite of one whose output was equal, so that something
/// else wrote in between; kRace of another operator of another lane in each run, though both ran in
/// both; kArgument of a tensor that both runs made alike, and one of them was given another, or
/// none; kInputData, kWeights; kDtypePromotion of either, where the runs had it cast; kConstant of
/// nothing in the trace, and nobody named it.
struct TracedInput {
  const TensorComparison* comparison = nullptr;
  CauseKind origin = CauseKind::kConstant;
  std::optional<std::uint64_t> producer;  ///< baseline op
  bool is_of_one = false;                 ///< kArgument: both are results of one operator
  std::string name;                       ///< without its prefix
  std::string_view changed;  ///< where it is not what its producer returned: `the candidate`
};

/// @param comparison  of an input that differs; borrowed
/// @param reader      whose input it is, in the baseline
TracedInput trace_input(const TensorComparison& comparison,
                        const core::OpHead& reader,
                        const Evidence& evidence);

/// Whether one side alone was given such a tensor, as of two lists the longer one has.
inline bool is_given_alone(const TensorComparison& comparison) {
  return comparison.baseline.slot.empty() || comparison.candidate.slot.empty();
}

/// The record of a compared tensor: the baseline's where it has one.
inline const core::TensorRecord& either(const TensorComparison& comparison) {
  return comparison.baseline.slot.empty() ? comparison.candidate : comparison.baseline;
}

}  // namespace repro_check::comparators
