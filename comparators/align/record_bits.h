// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "comparators/align/pairing.h"
#include "core/digest/digest.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// Whether two records agree in all that was recorded of their values: tensors by dtype, shape,
/// layout and digest, inputs included, scalars exactly, and the place of the generator. A tensor
/// without a digest is known to be equal to nothing, unless it is undefined. Digests have to be of
/// one rule.
bool bit_equal(const core::OpRecord& baseline, const core::OpRecord& candidate);

/// Pairs what was called in another order, where it is bit-equal; what is not stays unmatched.
/// @return how many pairs were made
std::uint64_t pair_moved(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         Pairing& pairing);

/// An operator call in two digests, to find equal ones among many.
struct OpPrints {
  core::Digest inputs;  ///< arguments, input tensors, seed and place of the generator
  core::Digest results;
};

/// @return empty where there is no result to compare: none at all, none with a content, or one
///         that was left out of the recording
std::optional<OpPrints> op_prints(const core::OpRecord& record);

}  // namespace repro_check::comparators::detail
