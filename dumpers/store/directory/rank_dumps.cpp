// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/directory/rank_dumps.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::store {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rank-";
constexpr std::string_view kProcessPrefix = "proc-";

namespace {

/// One name a number: no leading zeros.
std::optional<std::uint32_t> number_behind(std::string_view prefix,
                                           std::string_view name) noexcept {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  return core::parse_number<std::uint32_t>(digits);
}

}  // namespace

std::string process_name(std::uint32_t number) {
  return std::string(kProcessPrefix) + std::to_string(number);
}

bool is_process_name(std::string_view name) noexcept {
  return number_behind(kProcessPrefix, name).has_value();
}

std::vector<fs::path> process_dumps(const fs::path& dump) {
  std::vector<fs::path> dumps;
  try {
    for (const core::ChildProcess& process : read_manifest(dump).processes) {
      if (process.recorded && is_process_name(process.name)) dumps.push_back(dump / process.name);
    }
  } catch (const core::Error&) {
    // Whoever opens the dump says so.
  }
  return dumps;
}

fs::path rank_directory(const fs::path& dump, std::uint32_t rank) {
  return dump / (std::string(kPrefix) + std::to_string(rank));
}

std::optional<std::uint32_t> rank_of_name(std::string_view name) noexcept {
  const auto rank = number_behind(kPrefix, name);
  return rank && *rank < kMostRanks ? rank : std::nullopt;
}

void write_rank_count(const fs::path& dump, std::uint32_t ranks) {
  const nlohmann::ordered_json document{
      {"format", "repro-check-rank-dumps"}, {"version", "1.0"}, {"ranks", ranks}};
  write_file_atomically(dump / kRankCountName, document.dump(2) + "\n");
}

std::uint32_t read_rank_count(const fs::path& dump) {
  constexpr std::uintmax_t kMost = 4096;
  const fs::path file = dump / kRankCountName;
  std::error_code code;
  if (!fs::exists(file, code)) return 0;
  const auto document = nlohmann::json::parse(read_text_file(file, kMost), nullptr, false);
  const auto ranks = document.is_object() ? document.find("ranks") : document.end();
  if (ranks == document.end() || !ranks->is_number_unsigned() || *ranks > kMostRanks) {
    throw core::damaged_dump(file.string() + ": has no number of ranks");
  }
  return ranks->get<std::uint32_t>();
}

std::vector<RankDump> rank_dumps(const fs::path& directory) {
  std::vector<RankDump> found;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    std::error_code ignored;
    const auto rank = rank_of_name(entry.path().filename().string());
    if (rank && entry.is_directory(ignored)) found.push_back({*rank, entry.path()});
  }
  std::ranges::sort(found, {}, &RankDump::rank);
  return found;
}

fs::path leading_dump(const fs::path& place) {
  const std::vector<RankDump> ranks = rank_dumps(place);
  return ranks.empty() ? place : ranks.front().path;
}

}  // namespace repro_check::store
