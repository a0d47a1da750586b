// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/system/file_descriptor.h"

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

}  // namespace repro_check::store
