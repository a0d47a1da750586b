// SPDX-License-Identifier: Apache-2.0
#include "core/trace/op_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace repro_check::core {

OpRanges united(OpRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const OpRange& left, const OpRange& right) {
    return left.first < right.first;
  });
  OpRanges merged;
  for (const OpRange& range : ranges) {
    const bool touches = !merged.empty() && (range.first <= merged.back().last ||
                                             range.first - merged.back().last == 1);
    if (touches) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

bool contains(const OpRanges& ranges, std::uint64_t index) noexcept {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), index, [](std::uint64_t at, const OpRange& range) {
        return at < range.first;
      });
  return after != ranges.begin() && index <= std::prev(after)->last;
}

std::string describe(const OpRanges& ranges) {
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const OpRange& range = ranges[i];
    if (i > 0) text += i + 1 == ranges.size() ? " and " : ", ";
    text += range.first == range.last ? fmt::format("op {}", range.first)
                                      : fmt::format("op {} to {}", range.first, range.last);
  }
  return text;
}

}  // namespace repro_check::core
