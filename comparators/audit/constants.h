// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comparators/audit/audit.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// An operator of an exported model that is given a constant.
struct ConstantUse {
  std::string op;              ///< `linear`, without a namespace
  std::uint32_t argument = 0;  ///< from 0
  std::string line;            ///< `model.py:12`, or where in the code of the artefact
};

/// A tensor in an exported model that is neither parameter nor buffer.
struct ArtefactConstant {
  std::string name;  ///< `CONSTANTS.c0`
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  std::vector<double> numbers;  ///< in row-major order, some of the first ones
  std::vector<ConstantUse> uses;
};

/// What the numbers of a constant look like.
enum class NumbersLook : std::uint8_t { kOfNothing, kMask, kNormal, kUniform, kPermutation };

struct LookOfNumbers {
  NumbersLook look = NumbersLook::kOfNothing;
  double share = 0;  ///< of a mask: of the larger of its two values
  double mean = 0;
  double deviation = 0;
  double least = 0;
  double greatest = 0;
};

/// Whether numbers look as if they had been drawn. Tables of positions, causal masks, windows and
/// orders do not: their neighbours are alike.
/// @param numbers    finite, in row-major order
/// @param row        of the last dimension, so many
/// @param is_coarse  of 16 bits or fewer: equal numbers are no news
LookOfNumbers look_at(std::span<const double> numbers, std::size_t row, bool is_coarse);

/// The rule of exported models: constants that look drawn, and are no weights.
const AuditRule& constants_rule() noexcept;

/// @param plan  its rules are not asked
AuditReport audit_constants(std::span<const ArtefactConstant> constants, AuditPlan plan);

}  // namespace repro_check::comparators
