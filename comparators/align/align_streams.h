// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comparators/align/align.h"

namespace repro_check::comparators {

/// As align(), each stream by itself: only within one is there an order. Alignment::candidate_of
/// increases within each.
/// @param baseline_streams, candidate_streams  per record, which stream it belongs to
Alignment align_streams(std::span<const std::uint32_t> baseline,
                        std::span<const std::uint64_t> baseline_streams,
                        std::span<const std::uint32_t> candidate,
                        std::span<const std::uint64_t> candidate_streams);

}  // namespace repro_check::comparators
