// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/entry.h"

namespace repro_check::store {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kTraceName = "trace.h5";
using core::sync_path;
using journal::kContentsName;
using journal::kJournalName;

/// Where a recording is made, and where its dump shall stand in the end.
struct RecordingPlace {
  std::filesystem::path final;
  std::filesystem::path working;  ///< the same, or beside it
  bool replaces = true;           ///< else nothing may be in the final place when it is taken
};

/// `<directory>.recording`.
std::filesystem::path recording_beside(const std::filesystem::path& directory);

/// Asked before a recording begins whose dump shall stand in `directory`, and which nobody wants to
/// lose once it is there.
/// @throws as prepare_place()
void require_place(const std::filesystem::path& directory,
                   bool replace_existing,
                   std::uint64_t needed_space);

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

/// A pack is a dump in one file: a tar archive of manifest.json and trace.h5, compressed with zstd.
inline constexpr const char* kPackSuffix = ".tar.zst";

/// Whether `path` is called like a pack: `<name>.tar.zst`.
bool has_pack_name(const std::filesystem::path& path);

/// Whether `path` is to be read as a pack: a plain file that is called like one, or that zstd made.
bool is_pack(const std::filesystem::path& path);

/// Where `path` is made before it takes its place; another one for each process.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

/// Where `pack` puts a dump that nobody names a file for: `<dump>.tar.zst` beside it.
std::filesystem::path default_pack(const std::filesystem::path& dump);

/// Where `unpack` puts a pack that nobody names a directory for: beside it, without its suffix.
/// @throws core::Error{kUsage} when `pack` is not called like one
std::filesystem::path default_dump(const std::filesystem::path& pack);

/// @throws core::Error{kDumpUnknown} when `pack` is missing, or not even compressed with zstd
void expect_pack(const std::filesystem::path& pack);

/// A dump that was named on the command line cannot be opened. Where it is a folder in which
/// nothing was recorded (neither manifest, journal, trace nor the dump of a rank), the command line
/// is wrong.
/// @throws core::Error{kUsage} in that case alone, saying what was expected
void refuse_bare_folder(const std::filesystem::path& dump, const core::Error& error);

/// The directory of the complete dump that a user means by `path`: itself, or the directory of the
/// manifest.json or trace.h5 it names.
/// @throws core::Error{kDumpUnknown} when there is no dump, saying what is there instead;
///         core::Error{kDumpIncomplete} when a recording never finished
std::filesystem::path locate_dump(const std::filesystem::path& path);

/// @throws core::Error{kUsage} when what is in `directory` is no recording, or still being written
void require_discardable(const std::filesystem::path& directory);

/// Removes the recording in `directory`, complete or not; that there is none is no error.
/// @throws as require_discardable(); core::Error{kIo}
void discard_recording(const std::filesystem::path& directory);

/// Checks that a recording can refer to the dump in `directory`.
/// @throws core::Error{kUsage} when there is no dump, when its digests follow another rule or when
///         it refers to a dump itself; otherwise as open_dump()
void require_reference(const std::filesystem::path& directory);

/// Whether both lead to one directory, there or not: a dump does not refer to itself.
bool is_same_place(const std::filesystem::path& left, const std::filesystem::path& right);

}  // namespace repro_check::store
