// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comparators/align/names.h"
#include "comparators/align/pairing.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators {

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

}  // namespace repro_check::comparators
