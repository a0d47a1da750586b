// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comparators/cause/hunks.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// Whether two runs are of two releases of LibTorch, which may do one thing by other operators.
bool are_of_two_releases(const core::RunManifest& baseline, const core::RunManifest& candidate);

/// Whether what both sides ran in one place read the same and left the same, bit by bit; of what
/// one side ran alone, whether it left nothing that it had not read. All contents have to be known.
/// @throws core::Error{kDumpDamaged}
bool gave_equal_results(const core::DumpSource& baseline,
                        const core::DumpSource& candidate,
                        const Hunk& hunk);

/// `op 3 aten::reshape of the baseline, and aten::contiguous, aten::view of the candidate`
std::string replaced_text(const core::DumpSource& baseline,
                          const core::DumpSource& candidate,
                          const Hunk& hunk);

}  // namespace repro_check::comparators
