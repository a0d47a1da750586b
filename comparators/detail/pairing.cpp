// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/pairing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "comparators/detail/key_table.h"
#include "comparators/detail/stream_numbers.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

using Ops = core::LargeVector<std::uint32_t>;
using StreamId = std::pair<std::uint32_t, std::uint32_t>;  // rank, lane

/// Op indices by stream.
using Streams = std::map<StreamId, Ops>;

/// Keys of one side's records, by the names that the other side may know them by.
class SideKeys {
 public:
  SideKeys(KeyTable& table, const NameRewriter& names, std::vector<std::uint64_t>& rewritten)
      : table_(table), names_(names), rewritten_(rewritten) {}

  /// @param renamed  set where the map rewrote a name of it
  std::uint32_t key_of(const core::OpRecord& head, bool& renamed) {
    const Id op = operator_id(head.op);
    const Id module = head.site ? module_id(head.site) : id_of(names_.module_path({}));
    for (const Id& id : {op, module}) {
      if (id.entry) ++rewritten_[*id.entry];
      renamed = renamed || id.changed;
    }
    return table_.intern(head, module.name, op.name);
  }

 private:
  struct Id {
    core::Digest name;
    std::optional<std::size_t> entry;  ///< of the map, that matched it
    bool changed = false;
  };

  static Id id_of(const NameRewriter::Name& name) {
    return {KeyTable::digest_of(name.text), name.entry, name.changed};
  }

  // A source hands out the same object for all calls of an operator, and of a place: the text is
  // looked at once. The object is held, so that its address cannot be another's later; a source
  // that makes new ones all the time only loses the short cut.
  Id operator_id(const std::shared_ptr<const core::OperatorInfo>& op) {
    const auto found = operators_.find(op);
    if (found != operators_.end()) return found->second;
    const Id id = id_of(names_.operator_name(*op));
    if (operators_.size() < kMostRemembered) operators_.emplace(op, id);
    return id;
  }

  Id module_id(const std::shared_ptr<const core::CallSite>& site) {
    const auto found = sites_.find(site);
    if (found != sites_.end()) return found->second;
    const Id id = id_of(names_.module_path(site->module_path));
    if (sites_.size() < kMostRemembered) sites_.emplace(site, id);
    return id;
  }

  static constexpr std::size_t kMostRemembered = 65'536;
  KeyTable& table_;
  const NameRewriter& names_;
  std::vector<std::uint64_t>& rewritten_;
  std::unordered_map<std::shared_ptr<const core::OperatorInfo>, Id> operators_;
  std::unordered_map<std::shared_ptr<const core::CallSite>, Id> sites_;
};

/// A call ends after all it encloses. Nested calls have higher op indices than what encloses them,
/// so the end of a call is known by the greatest index inside it; of several calls that end there
/// the innermost ends first.
/// @param parents  kUnmatched where there is none
Ops completion_order(const Ops& parents, const Ops& depths) {
  Ops last(parents.size());
  std::iota(last.begin(), last.end(), 0U);
  for (std::size_t i = parents.size(); i-- > 0;) {
    if (parents[i] == kUnmatched) continue;
    std::uint32_t& of_parent = last[parents[i]];
    of_parent = std::max(of_parent, last[i]);
  }
  Ops order(parents.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t left, std::uint32_t right) {
    return std::tuple(last[left], depths[right], right) <
           std::tuple(last[right], depths[left], left);
  });
  return order;
}

/// Leaves out the calls that another one encloses.
void keep_top(const Ops& parents, RecordKeys& keys) {
  keys.visible_of.resize(parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i) {
    // A parent comes before what it encloses.
    keys.visible_of[i] =
        parents[i] == kUnmatched ? static_cast<std::uint32_t>(i) : keys.visible_of[parents[i]];
  }
  std::erase_if(keys.completion, [&](std::uint32_t op) { return parents[op] != kUnmatched; });
}

void expect_sound(const core::DumpSource& source, const core::OpRecord& head, std::uint64_t index) {
  if (head.parent >= static_cast<std::int64_t>(index)) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      source.location() + ": op " + std::to_string(index) +
                          " names a parent that does not come before it");
  }
  if (!head.op) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      source.location() + ": op " + std::to_string(index) + " names no operator");
  }
}

/// What encloses each record; nothing as long as nothing is nested.
struct Nesting {
  Ops parents;  ///< kUnmatched where there is none
  Ops depths;

  /// To be told every record, in order.
  void see(const core::OpRecord& head, std::size_t index, std::size_t count) {
    if (parents.empty()) {
      if (head.parent < 0 && head.depth == 0) return;
      parents.reserve(count);
      depths.reserve(count);
      parents.assign(index, kUnmatched);
      depths.assign(index, 0);
    }
    parents.push_back(head.parent < 0 ? kUnmatched : static_cast<std::uint32_t>(head.parent));
    depths.push_back(head.depth);
    nested = nested || head.parent >= 0;
  }

  bool nested = false;
};

/// @param renamed  per record whether the map rewrote a name of it; empty where it did of none
RecordKeys read_keys(const core::DumpSource& source,
                     bool top_only,
                     SideKeys table,
                     Streams& streams,
                     core::LargeVector<bool>& renamed) {
  RecordKeys keys;
  const std::uint64_t count = source.op_count();
  if (count >= kUnmatched) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      source.location() + " holds more operators than can be aligned");
  }
  keys.keys.reserve(count);
  Nesting nesting;
  std::set<std::uint32_t> ranks;
  for (std::uint64_t i = 0; i < count; ++i) {
    const core::OpRecord head = source.op_head(i);
    expect_sound(source, head, i);
    bool is_renamed = false;
    keys.keys.push_back(table.key_of(head, is_renamed));
    if (is_renamed) {
      renamed.resize(count);
      renamed[i] = true;
    }
    if (!top_only || head.parent < 0) {
      Ops& stream = streams[{head.rank, head.lane}];
      if (streams.size() == 1 && stream.empty()) stream.reserve(count);
      stream.push_back(static_cast<std::uint32_t>(i));
    }
    ranks.insert(head.rank);
    nesting.see(head, i, count);
  }
  keys.ranks.assign(ranks.begin(), ranks.end());
  if (nesting.nested) {
    keys.completion = completion_order(nesting.parents, nesting.depths);
  } else {
    keys.completion.resize(count);
    std::iota(keys.completion.begin(), keys.completion.end(), 0U);
  }
  if (top_only && nesting.nested) keep_top(nesting.parents, keys);
  return keys;
}

/// What the keys stand for is forgotten with the table: the alignment needs the memory.
void read_both(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const PairingOptions& options,
               Pairing& pairing,
               Streams& baseline_streams,
               Streams& candidate_streams,
               core::LargeVector<bool>& renamed) {
  KeyTable table;
  const NameRewriter as_they_are;
  core::LargeVector<bool> none;  // the baseline keeps its names
  pairing.baseline = read_keys(baseline,
                               options.top_of_baseline,
                               {table, as_they_are, pairing.rewritten},
                               baseline_streams,
                               none);
  pairing.candidate = read_keys(candidate,
                                options.top_of_candidate,
                                {table, pairing.names, pairing.rewritten},
                                candidate_streams,
                                renamed);
}

/// What every key of both sides is below.
std::size_t key_count(const Pairing& pairing) {
  const auto greatest = [](const Ops& keys) { return keys.empty() ? 0U : std::ranges::max(keys); };
  return std::size_t{std::max(greatest(pairing.baseline.keys), greatest(pairing.candidate.keys))} +
         1;
}

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
  if (pairing.matched == pairing.baseline_of.size()) return moved;
  LeftOver extra(pairing.candidate.keys, pairing.baseline_of, key_count(pairing));
  for (std::uint32_t i = 0; i < pairing.candidate_of.size(); ++i) {
    if (pairing.candidate_of[i] != kUnmatched) continue;
    const std::uint32_t candidate = extra.take(pairing.baseline.keys[i]);
    if (candidate != kUnmatched) moved.push_back({i, candidate});
  }
  return moved;
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

namespace {

/// Pairs what an alignment of one stream found.
/// @param left, right  op indices of the stream's records
/// @param renamed      as read_keys() has it
void take_alignment(const Alignment& alignment,
                    const Ops& left,
                    const Ops& right,
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

/// Aligns stream by stream; what it takes for that is gone afterwards.
void align_all(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const PairingOptions& options,
               Pairing& pairing) {
  Streams baseline_streams;
  Streams candidate_streams;
  core::LargeVector<bool> renamed;
  read_both(baseline, candidate, options, pairing, baseline_streams, candidate_streams, renamed);
  pairing.candidate_of.assign(pairing.baseline.keys.size(), kUnmatched);
  pairing.baseline_of.assign(pairing.candidate.keys.size(), kUnmatched);
  pairing.how.assign(pairing.baseline.keys.size(), MatchedBy::kNone);
  const auto find = pairing.by_position ? align_by_position : align;
  const Ops& left_keys = pairing.baseline.keys;
  const Ops& right_keys = pairing.candidate.keys;
  std::optional<StreamNumbers> numbers;
  for (const auto& [stream, left] : baseline_streams) {
    const auto found = candidate_streams.find(stream);
    if (found == candidate_streams.end()) continue;
    const Ops& right = found->second;
    if (left.size() == left_keys.size() && right.size() == right_keys.size()) {
      take_alignment(find(left_keys, right_keys), left, right, renamed, pairing);
      continue;
    }
    if (!numbers) numbers.emplace(key_count(pairing));
    numbers->begin_stream();
    const Ops left_numbers = numbers->number(left_keys, left);
    const Ops right_numbers = numbers->number(right_keys, right);
    take_alignment(find(left_numbers, right_numbers), left, right, renamed, pairing);
  }
}

}  // namespace

Pairing pair_records(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const PairingOptions& options) {
  Pairing pairing;
  pairing.by_position = options.mode == configs::AlignMode::kStrict;
  if (options.map != nullptr) {
    pairing.names = NameRewriter(*options.map);
    pairing.rewritten.resize(options.map->entries.size());
  }
  align_all(baseline, candidate, options, pairing);
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
