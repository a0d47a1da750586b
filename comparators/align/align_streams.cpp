// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/align_streams.h"

#include <cstddef>
#include <map>
#include <vector>

namespace repro_check::comparators {

Alignment align_streams(std::span<const std::uint32_t> baseline,
                        std::span<const std::uint64_t> baseline_streams,
                        std::span<const std::uint32_t> candidate,
                        std::span<const std::uint64_t> candidate_streams) {
  const auto places_of = [](std::span<const std::uint64_t> streams) {
    std::map<std::uint64_t, std::vector<std::uint32_t>> places;
    for (std::uint32_t i = 0; i < streams.size(); ++i) places[streams[i]].push_back(i);
    return places;
  };
  const auto keys_at = [](std::span<const std::uint32_t> all, std::span<const std::uint32_t> at) {
    std::vector<std::uint32_t> keys;
    for (const std::uint32_t place : at) keys.push_back(all[place]);
    return keys;
  };
  Alignment result;
  result.candidate_of.assign(baseline.size(), kUnmatched);
  result.how.assign(baseline.size(), MatchedBy::kNone);
  const auto theirs = places_of(candidate_streams);
  for (const auto& [stream, left] : places_of(baseline_streams)) {
    const auto right = theirs.find(stream);
    if (right == theirs.end()) continue;
    const Alignment part = align(keys_at(baseline, left), keys_at(candidate, right->second));
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (part.candidate_of[i] == kUnmatched) continue;
      result.candidate_of[left[i]] = right->second[part.candidate_of[i]];
      result.how[left[i]] = part.how[i];
    }
    result.matched += part.matched;
    result.gave_up = result.gave_up || part.gave_up;
    result.work += part.work;
  }
  return result;
}

}  // namespace repro_check::comparators
