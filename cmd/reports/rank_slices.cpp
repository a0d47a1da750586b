// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/rank_slices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "cmd/terminal/output.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using comparators::RankRange;

constexpr const char* kFormat = "repro-check-ranks-slice";
constexpr const char* kVersion = "2.0";
constexpr std::uint32_t kOpenEnd = std::numeric_limits<std::uint32_t>::max();

/// `0:512`, `:512`, `512:`
RankRange parse_range(std::string_view text) {
  RankRange range;
  const std::size_t colon = text.find(':');
  const auto number = [&](std::string_view digits, std::uint32_t& into) {
    const auto read = core::parse_number<std::uint32_t>(digits);
    into = read.value_or(into);
    return read || digits.empty();
  };
  if (colon == std::string_view::npos || !number(text.substr(0, colon), range.first) ||
      !number(text.substr(colon + 1), range.end) || range.first >= range.end) {
    throw core::usage_error(fmt::format("--ranks {}: is no range of ranks", text),
                            "write --ranks 0:512 for the ranks 0 to 511");
  }
  return range;
}

}  // namespace

DESCRIBE(RankRange, MEMBER(first) MEMBER(end))
DESCRIBE(RankSlice, MEMBER(verb) MEMBER(dumps) MEMBER(ranks) NAMED("expected_ranks", expected))

namespace {

core::Digest digest_of(std::string_view text) {
  return core::digest_leaf(std::as_bytes(std::span(text)));
}

/// The slices of one file, one behind the other.
std::vector<RankSlice> slices_in(const std::string& file) {
  const std::string text = read_text_file(file);
  std::size_t number = 1;
  const auto refuse = [&](const std::string& why) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}, line {}: {}", file, number, why),
                      "write it again: repro-check ranks DUMP --ranks 0:512 --format jsonl, or "
                      "diff A B likewise");
  };
  std::vector<RankSlice> slices;
  std::size_t begin = 0;  // of the slice that is being read
  bool is_open = false;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    if (end == std::string::npos) refuse("it is cut short");
    const std::string_view before = std::string_view(text).substr(begin, at - begin);
    Json line = Json::parse(std::string_view(text).substr(at, end - at), nullptr, false);
    if (!line.is_object()) refuse("it is not JSON");
    ++number;
    if (!is_open) {
      begin = at;
      if (line.value("format", "") != kFormat) refuse("it is not a slice of ranks");
      if (line.value("version", "") != kVersion) refuse("another version of repro-check wrote it");
      slices.emplace_back().file = file;
      try {
        describe(JsonReader(line), slices.back());
      } catch (const std::exception& error) {
        refuse(error.what());
      }
    } else if (line.value("type", "") != "end") {
      slices.back().lines.push_back(std::move(line));
      continue;
    } else if (line.value("digest", "") != core::to_hex(digest_of(before))) {
      refuse("its lines were changed");
    }
    is_open = !is_open;
  }
  if (is_open) refuse("it is cut short");
  if (slices.empty()) refuse("it is empty");
  return slices;
}

void require_alike(const RankSlice& one, const RankSlice& other) {
  const auto refuse = [&](const std::string& mine, const std::string& others) {
    throw core::usage_error(
        fmt::format("{} is of {}, and {} of {}", other.file, others, one.file, mine),
        "give the files of one command, of one dump");
  };
  if (one.verb != other.verb) refuse("`" + one.verb + "`", "`" + other.verb + "`");
  if (one.dumps != other.dumps) {
    refuse(fmt::format("{}", fmt::join(one.dumps, " and ")),
           fmt::format("{}", fmt::join(other.dumps, " and ")));
  }
  if (one.expected != 0 && other.expected != 0 && one.expected != other.expected) {
    refuse(fmt::format("{} ranks", one.expected), fmt::format("{} ranks", other.expected));
  }
}

void require_all_ranks(const std::vector<RankSlice>& slices) {
  std::uint32_t expected = 0;
  for (const RankSlice& slice : slices) expected = std::max(expected, slice.expected);
  const auto missing = [&](std::uint32_t first, std::uint32_t end) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      fmt::format("no file holds the ranks {} of {}",
                                  range_text({first, end}),
                                  fmt::join(slices.front().dumps, " and ")),
                      "the verdict needs all ranks: give the missing file too");
  };
  std::uint32_t end = 0;
  const RankSlice* before = nullptr;
  for (const RankSlice& slice : slices) {
    if (before != nullptr && slice.ranks.first < end) {
      throw core::usage_error(
          fmt::format("rank {} is in {} and in {}", slice.ranks.first, before->file, slice.file),
          "give each slice of the ranks once");
    }
    if (slice.ranks.first > end) missing(end, slice.ranks.first);
    end = slice.ranks.end;
    before = &slice;
  }
  if (end < expected) missing(end, expected);
}

}  // namespace

RankRange RankRangeFlag::range() const { return text_ ? parse_range(*text_) : RankRange{}; }

std::string range_text(const RankRange& range) {
  return range.end == kOpenEnd ? fmt::format("{}:", range.first)
                               : fmt::format("{}:{}", range.first, range.end);
}

std::string slice_text(const RankSlice& slice) {
  RankSlice head = slice;
  head.ranks.end = std::min(head.ranks.end, std::max(head.expected, head.ranks.first + 1));
  Json header{{"type", "header"}, {"format", kFormat}, {"version", kVersion}};
  describe(JsonWriter(header), head);
  std::string text = to_document(header, false);
  for (const Json& line : slice.lines) text += to_document(line, false);
  return text + to_document({{"type", "end"}, {"digest", core::to_hex(digest_of(text))}}, false);
}

std::vector<RankSlice> read_slices(const std::vector<std::string>& files) {
  std::vector<RankSlice> slices;
  for (const std::string& file : files) expect_path(file);
  for (const std::string& file : files) {
    std::ranges::move(slices_in(file), std::back_inserter(slices));
  }
  std::ranges::stable_sort(slices, {}, [](const RankSlice& slice) { return slice.ranks.first; });
  for (const RankSlice& slice : slices) require_alike(slices.front(), slice);
  require_all_ranks(slices);
  return slices;
}

}  // namespace repro_check::cmd
