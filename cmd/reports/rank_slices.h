// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/command_line.h"
#include "cmd/render/json_form.h"
#include "comparators/ranks/ranks.h"

namespace repro_check::cmd {

/// `--ranks 0:512`
class RankRangeFlag : public OptionGroup {
 public:
  [[nodiscard]] bool is_given() const noexcept { return text_.has_value(); }
  /// All ranks where it was not given. @throws core::Error{kUsage}
  [[nodiscard]] comparators::RankRange range() const;

 private:
  std::optional<std::string> text_ = value(&text_, "--ranks FIRST:END");
};

/// `0:512`
std::string range_text(const comparators::RankRange& range);

/// What a command came to that read some of the ranks of a dump: JSON Lines, which lie where they
/// were written until all are put together.
struct RankSlice {
  std::string verb;                ///< that wrote it: `ranks`, `diff`
  std::vector<std::string> dumps;  ///< as they were given to it
  comparators::RankRange ranks;    ///< that it was to read
  std::uint32_t expected = 0;      ///< how many there are; 0 = not known
  std::vector<Json> lines = {};
  std::string file = {};  ///< where it was read from
};

/// A header, the lines, and an end with the digest of all before it: half a slice is none. Several
/// of them in one file are several slices.
std::string slice_text(const RankSlice& slice);

/// Those of some files, by rank: every rank of one run in one of them, and in one alone.
/// @param files  one at least
/// @throws core::Error{kDumpDamaged} where a file holds something else, or not all of it,
///         kUsage where one is of another command or dump, or a rank in two of them,
///         kNotComparable where ranks are in none of them
std::vector<RankSlice> read_slices(const std::vector<std::string>& files);

}  // namespace repro_check::cmd
