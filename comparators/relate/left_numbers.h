// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/trace/dump.h"

namespace repro_check::comparators {

enum class LeftAlike : std::uint8_t {
  kNothing,  ///< neither of the two leaves any
  kSame,     ///< bit for bit
  kNear,     ///< by no more than a ten thousandth, as other kernels in other places round
  kApart,
};

enum class LeftKind : std::uint8_t { kLoss, kParameters, kNumber };

/// What a program leaves by which two ways to run it compare: losses, what optimizers leave of
/// parameters, and numbers that Python read.
struct LeftNumbers {
  LeftAlike alike = LeftAlike::kNothing;
  LeftKind kind{};       ///< of the first that is farthest apart, where any differs
  std::uint64_t at = 0;  ///< its step; of a number which it is, from 0
};

/// By their order, whatever operators made them.
/// @param one, other  recordings with values
/// @throws core::Error{kDumpDamaged}
LeftNumbers compare_left(const core::DumpSource& one, const core::DumpSource& other);

}  // namespace repro_check::comparators
