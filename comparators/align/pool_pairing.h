// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comparators/align/pairing.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Pairs the records of two streams that have no order: of each key first those that agree in
/// inputs and results, then those with equal inputs, and what is left as it comes. A record that
/// cannot be read agrees with none.
/// @param left, right  op indices of the streams' records
void pair_unordered(const core::DumpSource& baseline,
                    const core::DumpSource& candidate,
                    std::span<const std::uint32_t> left,
                    std::span<const std::uint32_t> right,
                    Pairing& pairing);

}  // namespace repro_check::comparators::detail
