// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"

namespace repro_check::store {

enum class PackPhase { kVerifying, kPacking, kUnpacking };

/// Told how many bytes of how many are done.
using PackProgress = std::function<void(PackPhase, std::uint64_t, std::uint64_t)>;

inline constexpr int kPackLevel = 3;
inline constexpr int kHighestPackLevel = 19;

struct PackOptions {
  int level = kPackLevel;  ///< of zstd, 1 to kHighestPackLevel
  bool replace_existing = false;
};

struct PackSummary {
  core::TraceSummary trace;
  std::uint64_t plain_bytes = 0;   ///< of the dump's files
  std::uint64_t packed_bytes = 0;  ///< of the pack
};

/// open_dump() of a pack, with something to look at while it is unpacked.
/// @throws as open_dump
std::unique_ptr<core::DumpSource> open_pack(
    const std::filesystem::path& pack,
    const std::vector<std::filesystem::path>& references = {},
    const PackProgress& progress = {});

/// Checks every byte of a dump and makes a pack of it, which takes its place when it is complete;
/// until then it is temporary_beside(pack). Two packs of one dump are equal, byte for byte, as far
/// as the same zstd makes them.
/// @throws core::Error{kUsage} when something is in the place of the pack, or `dump` is packed
///         already; {kIo}; otherwise as open_dump
PackSummary pack_dump(const std::filesystem::path& dump,
                      const std::filesystem::path& pack,
                      const PackOptions& options,
                      const PackProgress& progress = {});

/// Makes the dump again that was packed, byte for byte, checks all of it, and only then puts it in
/// its place; until then it is temporary_beside(directory).
/// @throws core::Error{kUsage} when something is in its place, or `pack` is no file; {kIo};
///         otherwise as open_dump
PackSummary unpack_dump(const std::filesystem::path& pack,
                        const std::filesystem::path& directory,
                        bool replace_existing,
                        const PackProgress& progress = {});

}  // namespace repro_check::store
