// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace repro_check::store {

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

}  // namespace repro_check::store
