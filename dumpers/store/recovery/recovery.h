// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::store {

/// Opens a dump, or what an unfinished recording has left, without writing anything. The latter
/// reads like a dump whose manifest says `trace.partial`; contents whose bytes never arrived are
/// not stored.
/// @param references  as for open_dump
/// @throws as open_dump; core::Error{kDumpIncomplete} when there is no journal to read
std::unique_ptr<core::DumpSource> open_partial(
    const std::filesystem::path& directory,
    const std::vector<std::filesystem::path>& references = {});

/// What a dump holds that was made of a recording, and which it is.
struct MadeDump : core::TraceSummary {
  core::Digest manifest;  ///< of the manifest's file
};

/// Told how many operators of how many are done.
using RecoveryProgress = std::function<void(std::uint64_t, std::uint64_t)>;

/// Adds to a manifest what is known of the run from outside of it.
/// @param files  that frames of the records name
using Completion = std::function<void(core::RunManifest&, const std::set<std::string>& files)>;

/// Makes the dump of a complete recording by journal::JournalSink. Index and contents are those
/// that a DumpWriter would have written in its place.
/// @param recording  journal.bin, or its directory
/// @throws core::Error{kDumpIncomplete} when the recording never finished, {kDumpDamaged} when it
///         is not what was recorded; otherwise as DumpWriter
MadeDump import_journal(const std::filesystem::path& recording,
                        const std::filesystem::path& dump,
                        const DumpWriterOptions& options,
                        const RecoveryProgress& progress = {},
                        const Completion& complete = {});

/// Makes a dump of what a killed recording has left: a whole one where everything was there, else
/// one that is marked partial. The recording is only touched once the dump is complete.
/// @param recording  its directory, or journal.bin
/// @param dump       where to; in place of the recording where empty
/// @throws core::Error{kUsage} when there is nothing to recover or it is still being written;
///         core::Error{kDumpDamaged} when the journal makes no sense, or holds less than the trace
///         whose place the dump would take; otherwise as DumpWriter
MadeDump recover_dump(const std::filesystem::path& recording,
                      const std::optional<std::filesystem::path>& dump,
                      DumpWriterOptions options,
                      const RecoveryProgress& progress = {},
                      const Completion& complete = {});

}  // namespace repro_check::store
