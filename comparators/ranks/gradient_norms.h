// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/ranks/ranks.h"
#include "core/digest/digest.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

struct RankReads;

/// What a rank holds of gradients that are split alike.
struct NormPart {
  std::string place;   ///< `@0:1/2|dp`, as core::kClipRecord has it; empty of what is whole
  core::Digest names;  ///< of the gradients, whatever their order
  double squares = 0;  ///< sum of the squares of all elements
};

/// A clipping of gradients, as one rank tells of it.
struct ClippedNorm {
  std::uint32_t step = 0;
  double norm = 0;      ///< that it was done by
  bool is_l2 = false;   ///< it was asked for as that; else it is taken for one
  double elements = 0;  ///< that this rank holds
  double epsilon = 0;   ///< of the coarsest dtype among them
  Phrases why_open;     ///< why it cannot be put together; empty = it can, as far as this rank goes
  std::vector<NormPart> parts;
};

/// @param record  a core::kClipRecord
ClippedNorm clipped_norm_of(const core::OpRecord& record);

/// Adds what was clipped next by the same norm, as a program does that clips in groups by the norm
/// of all. False where it is by another norm.
bool continues(ClippedNorm& clipped, const ClippedNorm& next);

/// Holds norms against what all ranks hold of the gradients. Squares are added up by placement:
/// each shard once, and once what several ranks have alike.
/// @param report  gets its norms, open_norms and why_open, and the first that is not the norm of
///                all gradients among its findings
void match_norms(const RankReads& reads, RanksReport& report);

/// How far a norm may be from the exact one, relative to it, by rounding alone.
///
/// A sum of n positive terms is off by no more than lambda sqrt(n) u, relative, with probability
/// 1 - 2n exp(-lambda^2 / 2), and half of that is left under the root; lambda is 8. What has fewer
/// bits than float32 is summed as float32, and then rounded: of each tensor, of all of them, of all
/// ranks, and once more where these are squared to be added up.
/// @param elements  n
/// @param epsilon   of the coarsest dtype: 2u
/// Source: N. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", SIAM J.
/// Sci. Comput. 41 (2019), theorem 3.1.
double norm_tolerance(double elements, double epsilon) noexcept;

}  // namespace repro_check::comparators
