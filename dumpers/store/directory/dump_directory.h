// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal.h"
#include "dumpers/journal/write_error.h"

namespace repro_check::store {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kTraceName = "trace.h5";
using journal::kContentsName;
using journal::kJournalName;
using journal::sync_path;

/// Where a recording is made, and where its dump shall stand in the end.
struct RecordingPlace {
  std::filesystem::path final;
  std::filesystem::path working;  ///< the same, or beside it
  bool replaces = true;           ///< else nothing may be in the final place when it is taken
};

/// `<directory>.recording`.
std::filesystem::path recording_beside(const std::filesystem::path& directory);

/// Decides where to record, and makes that directory, new and empty.
/// @param needed_space  bytes that must be free there
/// @throws core::Error{kUsage} when something is there that may not be replaced; {kIo}
RecordingPlace prepare_place(const std::filesystem::path& directory,
                             bool replace_existing,
                             std::uint64_t needed_space);

/// The same for a dump that is always made in `working`, which is new, and only then put in its
/// place: `directory` may not be there, may be empty, or hold what may be replaced.
RecordingPlace prepare_replacement(const std::filesystem::path& directory,
                                   const std::filesystem::path& working,
                                   bool replace_existing);

/// Puts a complete dump into its final place, and removes what stood there.
void publish(const RecordingPlace& place);

/// Writes a file so that at any instant either all of it or nothing is there under its name.
void write_file_atomically(const std::filesystem::path& file, std::string_view text);

/// Removes a file; that it is not there is no error.
void remove_file(const std::filesystem::path& file);

/// The whole of a file. @throws core::Error{kIo}, or {kDumpDamaged} beyond `limit` bytes
std::string read_text_file(const std::filesystem::path& file, std::uintmax_t limit);

/// The manifest of the complete dump in `directory`.
/// @throws core::Error{kDumpUnknown} when it is of a newer format, {kDumpDamaged}, {kIo}
core::RunManifest read_manifest(const std::filesystem::path& directory);

}  // namespace repro_check::store
