// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/dump.h"

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
  std::uint64_t operators = 0;     ///< calls of them; of ranks, those of all
  std::string partial;             ///< why a dump is partial; empty = whole
  std::uint64_t plain_bytes = 0;   ///< of the dump's files
  std::uint64_t packed_bytes = 0;  ///< of the pack
};

/// open_dump() of a pack, with something to look at while it is unpacked.
/// @throws core::Error{kUsage} where it holds the dumps of several ranks; otherwise as open_dump
std::unique_ptr<core::DumpSource> open_pack(
    const std::filesystem::path& pack,
    const std::vector<std::filesystem::path>& references = {},
    const PackProgress& progress = {});

/// Checks every byte of a dump, or of a directory that holds a dump a rank, and makes a pack of it,
/// which takes its place when it is complete; until then it is temporary_beside(pack). Two packs of
/// one dump are equal, byte for byte, as far as the same zstd makes them.
/// @throws core::Error{kUsage} when something is in the place of the pack, or `dump` is packed
///         already; {kDumpIncomplete} when a rank is missing; {kIo}; otherwise as open_dump
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
