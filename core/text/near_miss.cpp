// SPDX-License-Identifier: Apache-2.0
#include "core/text/near_miss.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace repro_check::core {
namespace {

/// ASCII only: the names of this project are.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// Optimal string alignment distance, with three rows of the table alive.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before_previous(right.size() + 1);
  std::vector<std::size_t> previous(right.size() + 1);
  std::vector<std::size_t> current(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[right.size()];
}

}  // namespace

std::optional<std::string_view> near_miss(std::string_view word,
                                          std::span<const std::string_view> candidates) {
  constexpr std::size_t kForgivenShare = 3;
  const std::string wanted = lower(word);
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t allowed = std::max<std::size_t>(1, candidate.size() / kForgivenShare);
    // Also keeps the table small when the word is a megabyte of somebody's mistake.
    if (wanted.size() > candidate.size() + allowed) continue;
    const std::size_t distance = edit_distance(wanted, lower(candidate));
    if (distance <= allowed && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace repro_check::core
