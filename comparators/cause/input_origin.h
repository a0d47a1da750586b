// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comparators/cause/cause.h"

namespace repro_check::comparators::detail {

/// Where a differing input came from.
enum class Origin {
  kDivergent,   ///< an operator whose output diverged, is missing, or was not judged
  kWithin,      ///< an operator whose output passed although it differs
  kUnobserved,  ///< an operator whose output was equal: something else wrote in between
  kRaced,       ///< another operator of another lane in each run, though both ran in both
  kInput,       ///< a forward argument
  kState,       ///< a parameter or buffer
  kConstant,    ///< nothing in the trace, and nobody named it
};

struct TracedInput {
  const TensorComparison* comparison = nullptr;
  Origin origin = Origin::kConstant;
  std::optional<std::uint64_t> producer;  ///< baseline op
  std::string name;                       ///< without its prefix
  std::string_view changed;  ///< where it is not what its producer returned: `in the candidate`
};

/// The record of a compared tensor: the baseline's where it has one.
const core::TensorRecord& either(const TensorComparison& comparison);

/// Where an input that differs got its value.
/// @param comparison  borrowed by the result
/// @param lane        of the operator whose input it is
TracedInput trace_input(const TensorComparison& comparison,
                        std::uint32_t lane,
                        const Evidence& evidence);

}  // namespace repro_check::comparators::detail
