// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/dump.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/pack.h"

namespace repro_check::store {

/// The two files of a dump, taken out of a pack.
struct PackContents {
  std::string manifest;
  OpenTrace trace;
  std::uint64_t trace_bytes = 0;
};

/// What is in a pack, for reading it where it is: the trace lies in a temporary file.
/// @throws core::Error{kDumpUnknown} when it holds anything else; {kDumpDamaged}; {kIo}
PackContents read_pack(const std::filesystem::path& pack, const PackProgress& progress);

/// A dump over what was taken out of `pack`, opened as any other.
std::unique_ptr<core::DumpSource> open_contents(
    const std::filesystem::path& pack,
    PackContents contents,
    const std::vector<std::filesystem::path>& references = {});

/// How messages call a file inside a pack: `DUMP.tar.zst: trace.h5`.
std::string name_inside(const std::filesystem::path& pack, const char* file);

}  // namespace repro_check::store
