// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/trace/dump_source.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/pack.h"

namespace repro_check::store {

/// A file that goes into a pack.
struct PackedFile {
  std::string name;                  ///< in the pack
  const core::FileDescriptor& file;  ///< borrowed
  std::string source;                ///< what it is called, for messages
};

/// Writes a tar archive as one zstd frame with a checksum. What comes out depends on the bytes, the
/// names, the level and the version of zstd: not on the time, owner or mode of the files, nor on
/// the number of processors.
/// @param fd        written from where it stands
/// @param name      of it, for messages
/// @param level     1 to 19
/// @param progress  told how many bytes of all files are done after each piece
/// @return bytes written
/// @throws core::Error{kIo}, {kDumpDamaged} when a file shrinks meanwhile
std::uint64_t write_pack(int fd,
                         const std::string& name,
                         int level,
                         std::span<const PackedFile> files,
                         const std::function<void(std::uint64_t)>& progress);

/// The two files of a dump, taken out of a pack.
struct PackContents {
  std::string manifest;
  OpenTrace trace;
  std::uint64_t trace_bytes = 0;
};

/// Bytes that no file in a pack of so many may have: 1 GiB, and 1,024 for each of them. zstd makes
/// 32,768 of one, and whoever forges a pack would have us unpack those before we see it.
constexpr std::uint64_t largest_member(std::uint64_t packed_bytes) noexcept {
  return (std::uint64_t{1} << 30U) + (packed_bytes << 10U);
}

/// Makes the file that the trace goes to; so many bytes will be written.
using MakeTraceFile = std::function<OpenTrace(std::uint64_t bytes)>;

/// Reads a pack from its first byte to its last. It is trusted in nothing: exactly the two files of
/// a dump may be in it, each as long as it says.
/// @throws core::Error{kDumpUnknown} when it holds anything else; {kDumpDamaged}; {kIo}
PackContents read_pack(const std::filesystem::path& pack,
                       const MakeTraceFile& make_trace,
                       const PackProgress& progress);

/// The same for reading it where it is: the trace lies in a temporary file.
PackContents read_pack(const std::filesystem::path& pack, const PackProgress& progress);

/// A dump over what was taken out of `pack`, opened as any other.
std::unique_ptr<core::DumpSource> open_contents(
    const std::filesystem::path& pack,
    PackContents contents,
    const std::vector<std::filesystem::path>& references = {});

/// How messages call a file inside a pack: `DUMP.tar.zst: trace.h5`.
std::string name_inside(const std::filesystem::path& pack, const char* file);

}  // namespace repro_check::store
