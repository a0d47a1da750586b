// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

/// How records of the two recordings may be paired. What was recorded at depth `all` is compared
/// with what was recorded at depth `top` by its outermost calls.
/// @return empty when the depths leave nothing to compare
std::optional<PairingOptions> pairing_options(const core::RunManifest& baseline,
                                              const core::RunManifest& candidate,
                                              const configs::CompareSpec& spec);

AlignmentSummary summarise(const Pairing& pairing);

/// What every entry of the map matched.
/// @param tensors  per entry, named tensors of the candidate
NameMapUse map_use(const configs::NameMap& map,
                   const Pairing& pairing,
                   const std::vector<std::uint64_t>& tensors);

/// What a reader has to know of the pairing beside the divergences.
std::vector<std::string> alignment_warnings(const Report& report);

/// `{0, 1}`, at most 16 of them.
std::string ranks_text(std::span<const std::uint32_t> ranks);

}  // namespace repro_check::comparators::detail
