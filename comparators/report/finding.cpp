// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

namespace repro_check::comparators {

std::string numbered(std::string_view noun, std::span<const std::uint32_t> numbers) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> rows;
  std::size_t shown = 0;
  for (std::size_t first = 0, end = 0; first < numbers.size() && rows.size() < kShown;
       first = end) {
    for (end = first + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1; ++end) {
    }
    if (end - first > 2) {
      rows.push_back(fmt::format("{}-{}", numbers[first], numbers[end - 1]));
    } else {
      end = first + 1;
      rows.push_back(std::to_string(numbers[first]));
    }
    shown = end;
  }
  if (shown < numbers.size()) rows.back() += fmt::format(" and {} more", numbers.size() - shown);
  return fmt::format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", fmt::join(rows, ", "));
}

}  // namespace repro_check::comparators
