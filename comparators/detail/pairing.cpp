// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/pairing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

using StreamId = std::pair<std::uint32_t, std::uint32_t>;  // rank, lane

/// Op indices by stream.
using Streams = std::map<StreamId, std::vector<std::uint32_t>>;

class KeyTable {
 public:
  std::uint32_t intern(const core::OpRecord& head) {
    const std::uint32_t op = text_id(head.op->full_name());
    const std::uint32_t module = head.site ? text_id(head.site->module_path) : text_id({});
    const Key key{head.rank,
                  head.lane,
                  head.step,
                  static_cast<std::uint32_t>(head.phase),
                  head.depth,
                  module,
                  op};
    return keys_.try_emplace(key, static_cast<std::uint32_t>(keys_.size())).first->second;
  }

 private:
  using Key = std::array<std::uint32_t, 7>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      constexpr std::size_t kMultiplier = 0x9E37'79B9'7F4A'7C15;
      std::size_t hash = 0;
      for (const std::uint32_t part : key) hash = (hash ^ part) * kMultiplier + (hash >> 29U);
      return hash;
    }
  };

  std::uint32_t text_id(const std::string& text) {
    return texts_.try_emplace(text, static_cast<std::uint32_t>(texts_.size() + 1)).first->second;
  }

  std::unordered_map<std::string, std::uint32_t> texts_;
  std::unordered_map<Key, std::uint32_t, KeyHash> keys_;
};

/// A call ends after all it encloses. Nested calls have higher op indices than what encloses them,
/// so the end of a call is known by the greatest index inside it; of several calls that end there
/// the innermost ends first.
std::vector<std::uint32_t> completion_order(const std::vector<std::int64_t>& parents,
                                            const std::vector<std::uint32_t>& depths) {
  std::vector<std::uint32_t> last(parents.size());
  std::iota(last.begin(), last.end(), 0U);
  for (std::size_t i = parents.size(); i-- > 0;) {
    if (parents[i] < 0) continue;
    std::uint32_t& of_parent = last[static_cast<std::size_t>(parents[i])];
    of_parent = std::max(of_parent, last[i]);
  }
  std::vector<std::uint32_t> order(parents.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t left, std::uint32_t right) {
    return std::tuple(last[left], depths[right], right) <
           std::tuple(last[right], depths[left], left);
  });
  return order;
}

RecordKeys read_keys(const core::DumpSource& source, KeyTable& table, Streams& streams) {
  RecordKeys keys;
  const std::uint64_t count = source.op_count();
  if (count >= kUnmatched) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      source.location() + " holds more operators than can be aligned");
  }
  keys.keys.reserve(count);
  std::vector<std::int64_t> parents;
  std::vector<std::uint32_t> depths;
  bool nested = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const core::OpRecord head = source.op_head(i);
    if (head.parent >= static_cast<std::int64_t>(i)) {
      throw core::Error(core::ErrorKind::kDumpDamaged,
                        source.location() + ": op " + std::to_string(i) +
                            " names a parent that does not come before it");
    }
    if (!head.op) {
      throw core::Error(core::ErrorKind::kDumpDamaged,
                        source.location() + ": op " + std::to_string(i) + " names no operator");
    }
    keys.keys.push_back(table.intern(head));
    streams[{head.rank, head.lane}].push_back(static_cast<std::uint32_t>(i));
    if (std::ranges::find(keys.ranks, head.rank) == keys.ranks.end()) {
      keys.ranks.push_back(head.rank);
    }
    parents.push_back(head.parent);
    depths.push_back(head.depth);
    nested = nested || head.parent >= 0;
  }
  std::ranges::sort(keys.ranks);
  if (nested) {
    keys.completion = completion_order(parents, depths);
  } else {
    keys.completion.resize(count);
    std::iota(keys.completion.begin(), keys.completion.end(), 0U);
  }
  return keys;
}

std::vector<std::uint32_t> keys_at(const std::vector<std::uint32_t>& keys,
                                   const std::vector<std::uint32_t>& places) {
  std::vector<std::uint32_t> picked;
  picked.reserve(places.size());
  for (const std::uint32_t place : places) picked.push_back(keys[place]);
  return picked;
}

}  // namespace

Pairing pair_records(const core::DumpSource& baseline, const core::DumpSource& candidate) {
  Pairing pairing;
  KeyTable table;
  Streams baseline_streams;
  Streams candidate_streams;
  pairing.baseline = read_keys(baseline, table, baseline_streams);
  pairing.candidate = read_keys(candidate, table, candidate_streams);
  pairing.candidate_of.assign(pairing.baseline.keys.size(), kUnmatched);
  pairing.baseline_of.assign(pairing.candidate.keys.size(), kUnmatched);
  for (const auto& [stream, left] : baseline_streams) {
    const auto found = candidate_streams.find(stream);
    if (found == candidate_streams.end()) continue;
    const std::vector<std::uint32_t>& right = found->second;
    const Alignment alignment =
        align(keys_at(pairing.baseline.keys, left), keys_at(pairing.candidate.keys, right));
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (alignment.candidate_of[i] == kUnmatched) continue;
      const std::uint32_t other = right[alignment.candidate_of[i]];
      pairing.candidate_of[left[i]] = other;
      pairing.baseline_of[other] = left[i];
    }
    pairing.matched += alignment.matched;
    pairing.gave_up = pairing.gave_up || alignment.gave_up;
  }
  return pairing;
}

}  // namespace repro_check::comparators::detail
