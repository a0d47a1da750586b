// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/trace/run_manifest.h"
#include "dumpers/journal/recorded_journal.h"

namespace repro_check::store {

/// The directory of the journal that `path`, a directory or the journal itself, names.
/// @throws core::Error{kDumpUnknown} when there is none; {kUsage} when a complete dump is there
std::filesystem::path locate_journal(const std::filesystem::path& path);

/// The manifest of what `journal` holds: as the recording left it, or as it was known when it
/// began, with `trace.partial` set unless everything is there.
/// @param name  stands for the run's where the journal does not know it
/// @throws core::Error{kDumpDamaged} when the manifest in the journal makes no sense
core::RunManifest recovered_manifest(const journal::RecordedJournal& journal,
                                     const std::string& name,
                                     std::uint64_t lost_contents);

}  // namespace repro_check::store
