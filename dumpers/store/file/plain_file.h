// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/system/file_descriptor.h"

namespace repro_check::store {

/// What offset, length and memory of a write past the page cache are multiples of.
inline constexpr std::size_t kDirectBlock = 4096;

/// @param code  why a file of a dump cannot be read
/// @throws core::Error{kDumpUnknown} where it is somebody else's, else {kIo}
[[noreturn]] void read_failed(const std::filesystem::path& file, const char* doing, int code);

/// Writes all of `bytes` where the file stands.
/// @param name  for messages
/// @throws core::Error{kIo}
void write_whole(int fd, std::span<const std::byte> bytes, const std::string& name);

/// Reads until `into` is full or the file ends.
/// @return how many bytes that were
/// @throws core::Error{kIo}
std::size_t read_some(int fd,
                      std::uint64_t offset,
                      std::span<std::byte> into,
                      const std::string& name);

/// Opens a file that must be a plain one, and no link, for reading.
/// @throws core::Error{kIo}, also when it is anything else
core::FileDescriptor open_plain(const std::filesystem::path& file);

/// Creates a file that must not be there yet. @throws core::Error{kIo}
core::FileDescriptor create_plain(const std::filesystem::path& file);

std::uint64_t size_of(const core::FileDescriptor& file, const std::string& name);

/// Some file systems do not know how large they are; those are taken at their word later.
/// @throws core::Error{kIo} when there is less than `needed` free in `directory`
void expect_free_space(const std::filesystem::path& directory, std::uint64_t needed);

/// Makes the file so long, with the space taken on the disk: what writes to it through a mapping
/// would get a signal, not an error, where there is none left. @throws core::Error{kIo}
void take_space(const core::FileDescriptor& file, std::uint64_t bytes, const std::string& name);

/// A new file in the directory for temporary files (TMPDIR).
/// @param needed_space  bytes that must be free there
/// @throws core::Error{kIo}
core::TemporaryFile create_temporary(std::uint64_t needed_space);

/// Gives a name to a file of create_temporary() that has none. @throws core::Error{kIo}
core::TemporaryName name_temporary(const core::FileDescriptor& file);

}  // namespace repro_check::store
