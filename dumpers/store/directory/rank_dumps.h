// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace repro_check::store {

inline constexpr const char* kRankCountName = "ranks.json";
/// More ranks than any job has. A larger number is damage, and nothing goes over so many.
inline constexpr std::uint32_t kMostRanks = 1U << 17U;

/// A program that ran on several ranks is recorded as a directory that holds the dump of each:
/// `rank-0`, `rank-1`.
struct RankDump {
  std::uint32_t rank = 0;
  std::filesystem::path path;
};

/// `<dump>/rank-<rank>`.
std::filesystem::path rank_directory(const std::filesystem::path& dump, std::uint32_t rank);

/// `<dump>/<name>`, the dump of another process of the program, inside of that of the one that
/// leads: `proc-1`.
std::string process_name(std::uint32_t number);

/// Whether a directory of that name holds such a one.
bool is_process_name(std::string_view name) noexcept;

/// Of the processes that the manifest in `dump` names as recorded, there or not; none where it
/// cannot be read.
std::vector<std::filesystem::path> process_dumps(const std::filesystem::path& dump);

/// The rank that a directory of that name holds; empty for any other name, and from kMostRanks on.
std::optional<std::uint32_t> rank_of_name(std::string_view name) noexcept;

/// Says beside the dumps how many ranks the program had.
void write_rank_count(const std::filesystem::path& dump, std::uint32_t ranks);

/// What that says; 0 where nothing does.
/// @throws core::Error{kDumpDamaged} when it makes no sense, or says more than kMostRanks
std::uint32_t read_rank_count(const std::filesystem::path& dump);

/// Those in `directory`, by rank; none where it holds none, or is no directory.
std::vector<RankDump> rank_dumps(const std::filesystem::path& directory);

/// The dump that stands for a recording where one is asked for: that of the lowest rank where
/// `place` holds the dumps of several, else `place` itself.
std::filesystem::path leading_dump(const std::filesystem::path& place);

}  // namespace repro_check::store
