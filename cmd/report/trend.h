// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cmd/gate/history.h"
#include "cmd/render/render.h"

namespace repro_check::cmd {

/// An operator that was the first to diverge, and in how many gate runs.
struct FirstCount {
  HistoryOperator first;
  std::uint64_t runs = 0;
};

/// The history of one gate on one platform.
struct Trend {
  std::string gate;
  std::string platform;               ///< key; empty where there is none
  std::vector<HistoryEntry> entries;  ///< in the order of the file
  std::uint64_t passed = 0;
  std::uint64_t diverged = 0;  ///< exit code 1; what is left could not be judged
  std::uint64_t streak = 0;    ///< of the last runs, those alike in having passed or not
  std::uint64_t longest_passed = 0;
  std::uint64_t longest_not_passed = 0;
  std::vector<FirstCount> firsts;  ///< the most frequent first, of equals the earliest
  /// Commits that passed in one run and diverged in another, in the order of their first runs.
  std::vector<std::string> undecided;
};

/// A trend for each gate and platform, in the order in which they first appear.
/// @param gate  only of this one
std::vector<Trend> trends_of(const History& history, const std::optional<std::string>& gate);

/// The newest runs of a trend, at most so many; the last one last. Borrowed from it.
std::span<const HistoryEntry> newest(const Trend& trend, std::size_t last);
/// `aten::addmm (encoder)`
std::string operator_text(const HistoryOperator& op);
/// The first characters of a hash; `-` for none.
std::string short_hash(const std::string& hash);
/// `gate.jsonl: 3 of 8 gate runs passed (38 %)`
std::string passed_text(const std::string& file, const std::vector<Trend>& trends);
/// `, 1 line unreadable`; empty where all could be read.
std::string unreadable_text(const std::vector<DamagedLine>& damaged);

/// @param file   as the user typed it
/// @param last   so many runs of each trend are listed, the newest last
std::string trend_text(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last,
                       const RenderOptions& options);

/// The same as JSON, with every number that the text has.
std::string trend_json(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last,
                       const RenderOptions& options);

/// One page, complete in itself: of each trend a plot of all runs, its numbers, and its newest
/// runs.
/// @throws core::Error{kInternal} when its data cannot be packed
std::string trend_html(const std::string& file,
                       const std::vector<Trend>& trends,
                       const std::vector<DamagedLine>& damaged,
                       std::size_t last);

}  // namespace repro_check::cmd
