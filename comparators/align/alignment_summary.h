// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comparators/align/name_rewriter.h"
#include "comparators/align/pairing.h"
#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

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

/// Modules of the candidate that the baseline knows under another path: renamed, or put into a
/// module that does nothing but call them. Told by what they ran: all operators of the one path
/// stand in the place of operators of the other, and neither path names a module of both models.
/// Dumps of one model file have none, since there another path is another module.
/// @throws core::Error{kDumpDamaged} when a record cannot be read
ModuleRenames find_renames(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const PairingOptions& options);

/// A sentence for each part of a path that was renamed: `module enc of the candidate is taken for
/// encoder of the baseline (24 modules)`; of many the first ones.
std::vector<std::string> rename_notes(const ModuleRenames& renames);

}  // namespace repro_check::comparators::detail
