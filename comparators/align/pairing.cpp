// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/pairing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "comparators/align/key_numbers.h"
#include "comparators/align/pool_pairing.h"
#include "comparators/align/side_records.h"
#include "comparators/align/stream_numbers.h"
#include "core/trace/lane.h"

namespace repro_check::comparators::detail {
namespace {

using Ops = core::LargeVector<std::uint32_t>;

/// Op indices of one side without a counterpart, by key.
class LeftOver {
 public:
  /// @param keys  of every record, below `key_count`
  LeftOver(const Ops& keys, const Ops& counterparts, std::size_t key_count)
      : begins_(key_count + 1) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (counterparts[i] == kUnmatched) ++begins_[keys[i] + std::size_t{1}];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    places_.resize(begins_.back());
    next_ = begins_;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (counterparts[i] == kUnmatched) places_[next_[keys[i]]++] = static_cast<std::uint32_t>(i);
    }
    next_ = begins_;
  }

  /// The first of a key that was not taken yet, or kUnmatched.
  std::uint32_t take(std::uint32_t key) {
    return next_[key] == begins_[key + std::size_t{1}] ? kUnmatched : places_[next_[key]++];
  }

 private:
  Ops places_;
  Ops begins_;  ///< of each key in places_, and the end of the last
  Ops next_;
};

/// The k-th record of a key that is left over here is the k-th that is left over there.
core::LargeVector<Moved> find_moved(const Pairing& pairing) {
  core::LargeVector<Moved> moved;
  const std::size_t operators = pairing.baseline_of.size() - pairing.candidate.returned.size();
  if (pairing.matched == operators) return moved;
  LeftOver extra(pairing.candidate.keys, pairing.baseline_of, pairing.distinct_keys);
  for (std::uint32_t i = 0; i < pairing.candidate_of.size(); ++i) {
    if (pairing.candidate_of[i] != kUnmatched) continue;
    const std::uint32_t candidate = extra.take(pairing.baseline.keys[i]);
    if (candidate != kUnmatched) moved.push_back({i, candidate});
  }
  return moved;
}

/// Pairs what an alignment of one stream found.
/// @param left, right  op indices of the stream's records
/// @param renamed      as SideRecords has it
void take_alignment(const Alignment& alignment,
                    std::span<const std::uint32_t> left,
                    std::span<const std::uint32_t> right,
                    const core::LargeVector<bool>& renamed,
                    Pairing& pairing) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (alignment.candidate_of[i] == kUnmatched) continue;
    const std::uint32_t other = right[alignment.candidate_of[i]];
    const bool by_map = !renamed.empty() && renamed[other];
    pairing.match(left[i], other, by_map ? MatchedBy::kMap : alignment.how[i]);
  }
  pairing.work += alignment.work;
  pairing.work_limit += most_work(left.size() + right.size());
  pairing.gave_up = pairing.gave_up || alignment.gave_up;
}

/// Aligns each stream that both sides have.
void align_streams(const core::DumpSource& baseline,
                   const core::DumpSource& candidate,
                   const SideRecords& here,
                   const SideRecords& there,
                   Pairing& pairing) {
  const auto find = pairing.by_position ? align_by_position : align;
  const Ops& left_keys = pairing.baseline.keys;
  const Ops& right_keys = pairing.candidate.keys;
  std::optional<StreamNumbers> numbers;
  std::size_t of_there = 0;
  for (std::size_t of_here = 0; of_here < here.streams.size(); ++of_here) {
    const StreamId id = here.streams.id(of_here);
    while (of_there < there.streams.size() && there.streams.id(of_there) < id) ++of_there;
    if (of_there == there.streams.size()) break;
    if (there.streams.id(of_there) != id) continue;
    const std::span<const std::uint32_t> left = here.streams.ops(of_here);
    const std::span<const std::uint32_t> right = there.streams.ops(of_there);
    if (core::is_unordered(id.lane)) {
      pair_unordered(baseline, candidate, left, right, pairing);
      continue;
    }
    if (left.size() == left_keys.size() && right.size() == right_keys.size()) {
      take_alignment(find(left_keys, right_keys), left, right, there.renamed, pairing);
      continue;
    }
    if (!numbers) numbers.emplace(pairing.distinct_keys);
    numbers->begin_stream();
    const Ops left_numbers = numbers->number(left_keys, left);
    const Ops right_numbers = numbers->number(right_keys, right);
    take_alignment(find(left_numbers, right_numbers), left, right, there.renamed, pairing);
  }
}

/// Reads and aligns; what it takes for that is gone afterwards.
void align_all(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const PairingOptions& options,
               Pairing& pairing) {
  // The baseline keeps its names, if there are to be any.
  const NameRewriter as_they_are =
      options.without_modules ? NameRewriter::without_modules() : NameRewriter();
  SideRecords here =
      read_side(baseline, options.top_of_baseline, as_they_are, pairing.rewritten, options.pace);
  SideRecords there = read_side(
      candidate, options.top_of_candidate, pairing.names, pairing.rewritten, options.pace);
  KeyNumbers numbers = number_keys(here.keys, there.keys);
  here.keys = {};
  there.keys = {};
  pairing.baseline = std::move(here.kept);
  pairing.candidate = std::move(there.kept);
  pairing.baseline.keys = std::move(numbers.baseline);
  pairing.candidate.keys = std::move(numbers.candidate);
  pairing.distinct_keys = numbers.distinct;
  pairing.candidate_of.assign(pairing.baseline.keys.size(), kUnmatched);
  pairing.baseline_of.assign(pairing.candidate.keys.size(), kUnmatched);
  pairing.how.assign(pairing.baseline.keys.size(), MatchedBy::kNone);
  align_streams(baseline, candidate, here, there, pairing);
}

/// The k-th call of a rank in one dump is the k-th in the other.
void pair_returned(const core::DumpSource& baseline,
                   const core::DumpSource& candidate,
                   Pairing& pairing) {
  using Place =
      std::tuple<std::uint32_t, std::uint32_t, std::size_t>;  // rank, step, how many before
  std::map<Place, Pairing::Returned> calls;
  const auto add = [&calls](const core::DumpSource& source,
                            const std::vector<std::uint32_t>& ops,
                            std::uint32_t Pairing::Returned::*side) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> before;
    for (const std::uint32_t op : ops) {
      const core::OpRecord head = source.op_head(op);
      calls[{head.rank, head.step, before[{head.rank, head.step}]++}].*side = op;
    }
  };
  add(baseline, pairing.baseline.returned, &Pairing::Returned::baseline);
  add(candidate, pairing.candidate.returned, &Pairing::Returned::candidate);
  for (const auto& [place, call] : calls) {
    pairing.returned.push_back(call);
    if (call.baseline == kUnmatched || call.candidate == kUnmatched) continue;
    pairing.candidate_of[call.baseline] = call.candidate;
    pairing.baseline_of[call.candidate] = call.baseline;
  }
}

}  // namespace

std::array<std::uint64_t, 7> Pairing::counts() const {
  std::array<std::uint64_t, 7> counts{};
  for (const MatchedBy by : how) ++counts[static_cast<std::size_t>(by)];
  counts[static_cast<std::size_t>(MatchedBy::kNone)] = 0;
  return counts;
}

void Pairing::match(std::uint32_t baseline_op, std::uint32_t candidate_op, MatchedBy by) {
  candidate_of[baseline_op] = candidate_op;
  baseline_of[candidate_op] = baseline_op;
  how[baseline_op] = by;
  ++matched;
}

Pairing pair_records(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const PairingOptions& options) {
  Pairing pairing;
  pairing.by_position = options.mode == configs::AlignMode::kStrict;
  if (options.map != nullptr) {
    pairing.names = NameRewriter(*options.map, options.renames);
    pairing.rewritten.resize(options.map->entries.size());
  }
  if (options.without_modules) pairing.names = NameRewriter::without_modules();
  align_all(baseline, candidate, options, pairing);
  pair_returned(baseline, candidate, pairing);
  if (!pairing.by_position) pairing.moved = find_moved(pairing);
  return pairing;
}

void lift_producers(const RecordKeys& keys, core::OpRecord& record) {
  if (keys.visible_of.empty()) return;
  for (core::TensorRecord& tensor : record.tensors) {
    if (tensor.producer < 0) continue;
    tensor.producer = keys.visible_of[static_cast<std::size_t>(tensor.producer)];
  }
}

}  // namespace repro_check::comparators::detail
