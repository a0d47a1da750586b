// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace repro_check::comparators {

/// By what a pair of records was found.
enum class MatchedBy : std::uint8_t {
  kNone,      ///< no pair
  kPosition,  ///< at the same place from the start or the end; without an order, of equal inputs
  kLcs,       ///< in a longest common subsequence of what lies between
  kAnchor,    ///< its key is equally frequent on both sides of a gap
  kPartial,   ///< on the best path of a search that was cut short
  kMap,       ///< under a name that the map rewrote, whatever found the place
  kOrder,     ///< out of order, which `order: relaxed` allows where everything is bit-equal
};

/// How records were paired, and how much it took.
struct AlignmentSummary {
  bool by_position = false;    ///< `align: strict`
  std::uint64_t position = 0;  ///< pairs by what found them (MatchedBy)
  std::uint64_t lcs = 0;
  std::uint64_t anchor = 0;
  std::uint64_t partial = 0;
  std::uint64_t map = 0;
  std::uint64_t order = 0;
  std::uint64_t reordered = 0;  ///< calls of both sides that stand elsewhere and were not paired
  std::uint64_t left_out_baseline = 0;  ///< nested calls, where the other side recorded none
  std::uint64_t left_out_candidate = 0;
  std::uint64_t work = 0;        ///< steps taken
  std::uint64_t work_limit = 0;  ///< steps after which it would have given up
  bool gave_up = false;
};

/// What became of a map of names (configs::NameMap); empty without one.
struct NameMapUse {
  struct Entry {
    std::size_t line = 0;
    std::string kind;  ///< `operator`, `module`
    std::string pattern;
    std::string replacement;
    std::uint64_t operators = 0;  ///< records of the candidate whose name it matched
    std::uint64_t tensors = 0;    ///< parameters and buffers of the candidate
  };
  std::string file;
  std::vector<Entry> entries;
};

}  // namespace repro_check::comparators
