// SPDX-License-Identifier: Apache-2.0
#include "core/trace/recorded_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace repro_check::core {

OpRanges united(OpRanges ranges) {
  std::ranges::sort(ranges, {}, &OpRange::first);
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
  const auto after = std::ranges::upper_bound(ranges, index, {}, &OpRange::first);
  return after != ranges.begin() && index <= std::prev(after)->last;
}

std::string describe(const OpRanges& ranges, std::string_view noun) {
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const OpRange& range = ranges[i];
    if (i > 0) text += i + 1 == ranges.size() ? " and " : ", ";
    text += range.first == range.last ? fmt::format("{} {}", noun, range.first)
                                      : fmt::format("{} {} to {}", noun, range.first, range.last);
  }
  return text;
}

std::string steps_text(const OpRanges& steps) {
  std::string text;
  for (const OpRange& range : steps) {
    text += (text.empty() ? "" : ",") + std::to_string(range.first);
    if (range.last != range.first) text += ":" + std::to_string(range.last + 1);
  }
  return text;
}

std::string part_text(const RecordedPart& part) {
  std::vector<std::string> parts;
  if (!part.steps.empty()) parts.push_back("steps " + steps_text(part.steps));
  if (!part.phases.empty()) {
    std::vector<std::string_view> names;
    for (const Phase phase : part.phases) names.push_back(name_of(phase));
    parts.push_back(fmt::format("phases {}", fmt::join(names, ", ")));
  }
  if (part.first_ops > 0) {
    parts.push_back("the first " + std::to_string(part.first_ops) + " operators");
  }
  if (part.processes == RecordedProcesses::kMain) {
    parts.emplace_back("one process, whatever others did");
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace repro_check::core
