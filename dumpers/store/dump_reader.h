// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump.h"
#include "dumpers/journal/journal_reader.h"

namespace repro_check::store {

/// Opens a complete dump, a directory or a pack, and checks its index against the manifest's
/// digest. The trace of a pack is unpacked into a file without a name in the directory for
/// temporary files.
/// @param references  where the dump may be that it refers to; see DumpSource::missing_reference()
/// @throws core::Error{kDumpUnknown} when it is no dump, or of a newer format;
///         core::Error{kDumpIncomplete} when the recording never finished, naming the last operator
///         reached; core::Error{kDumpDamaged} when index or manifest do not hold together
std::unique_ptr<core::DumpSource> open_dump(
    const std::filesystem::path& path, const std::vector<std::filesystem::path>& references = {});

/// The same of a dump that was named on the command line.
/// @throws as open_dump(); core::Error{kUsage} for a folder in which nothing was recorded
std::unique_ptr<core::DumpSource> open_named(
    const std::filesystem::path& path, const std::vector<std::filesystem::path>& references = {});

/// What an unfinished recording reached; empty when there is no journal in `directory`.
std::optional<journal::JournalSummary> summarise_incomplete(const std::filesystem::path& directory);

/// Version of the HDF5 library in use, `1.10.8`.
std::string hdf5_version();

}  // namespace repro_check::store
