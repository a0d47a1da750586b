// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/record_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "comparators/align/align.h"
#include "comparators/align/numbering.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

using Ops = core::LargeVector<std::uint32_t>;

struct LowHalf {
  std::size_t operator()(const core::Digest& key) const noexcept { return key.low; }
};

/// What was found out about objects that a source hands out again and again, as it does one for
/// all calls of an operator or of a place. Of those that fall together the last is remembered: a
/// dump in which every call has a place of its own takes no more memory than another.
template <typename Object, typename Value>
class ObjectMemo {
 public:
  /// @param object  may be null. It is held, so that its address cannot be another's later
  /// @param find    gives the value where it is not remembered
  template <typename Find>
  const Value& of(const std::shared_ptr<const Object>& object, const Find& find) {
    const auto address = reinterpret_cast<std::uintptr_t>(object.get());
    Slot& slot = slots_[(address * 0x9E37'79B9'7F4A'7C15U >> 32U) % kSlots];
    if (!slot.set || slot.object != object) slot = {object, find(), true};
    return slot.value;
  }

 private:
  static constexpr std::size_t kSlots = 4096;

  struct Slot {
    std::shared_ptr<const Object> object;
    Value value{};
    bool set = false;
  };

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

/// Keys of one side's records, by the names that the other side may know them by.
class SideKeys {
 public:
  SideKeys(const NameRewriter& names, std::vector<std::uint64_t>& rewritten)
      : names_(names), rewritten_(rewritten) {}

  /// @param renamed  set where the map rewrote a name of it
  core::Digest key_of(const core::OpRecord& head, bool& renamed) {
    const Id op = operators_.of(head.op, [&] { return id_of(names_.operator_name(*head.op)); });
    const Id module = sites_.of(head.site, [&] {
      return id_of(names_.module_path(head.site ? head.site->module_path : std::string()));
    });
    for (const Id& id : {op, module}) {
      if (id.entry) ++rewritten_[*id.entry];
      renamed = renamed || id.changed;
    }
    return comparators::key_of(head, module.name, op.name);
  }

 private:
  struct Id {
    core::Digest name;
    std::optional<std::size_t> entry;  ///< of the map, that matched it
    bool changed = false;
  };

  static Id id_of(const NameRewriter::Name& name) {
    return {digest_of_name(name.text), name.entry, name.changed};
  }

  const NameRewriter& names_;
  std::vector<std::uint64_t>& rewritten_;
  ObjectMemo<core::OperatorInfo, Id> operators_;
  ObjectMemo<core::CallSite, Id> sites_;
};

/// A call ends after all it encloses. Nested calls have higher op indices than what encloses them,
/// so the end of a call is known by the greatest index inside it; of several calls that end there
/// the innermost ends first.
/// @param parents  kUnmatched where there is none
/// @param depths   as many as parents; both empty where nothing is nested
Ops completion_order(std::size_t count, const Ops& parents, const Ops& depths) {
  Ops order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (parents.empty()) return order;
  Ops last = order;
  for (std::size_t i = count; i-- > 0;) {
    if (parents[i] == kUnmatched) continue;
    std::uint32_t& of_parent = last[parents[i]];
    of_parent = std::max(of_parent, last[i]);
  }
  std::ranges::sort(order, [&](std::uint32_t left, std::uint32_t right) {
    return std::tuple(last[left], depths[right], right) <
           std::tuple(last[right], depths[left], left);
  });
  return order;
}

/// Leaves out the calls that another one encloses.
/// @param parents  empty where nothing is nested
void keep_top(const Ops& parents, RecordKeys& keys) {
  keys.visible_of.resize(parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i) {
    // A parent comes before what it encloses.
    keys.visible_of[i] =
        parents[i] == kUnmatched ? static_cast<std::uint32_t>(i) : keys.visible_of[parents[i]];
  }
  if (parents.empty()) return;
  std::erase_if(keys.completion, [&](std::uint32_t op) { return parents[op] != kUnmatched; });
}

void expect_sound(const core::DumpSource& source, const core::OpRecord& head, std::uint64_t index) {
  const bool has_sound_parent = head.parent < static_cast<std::int64_t>(index);
  if (has_sound_parent && head.op) return;
  throw core::Error(
      core::ErrorKind::kDumpDamaged,
      fmt::format("{}: op {} names {}",
                  source.location(),
                  index,
                  has_sound_parent ? "no operator" : "a parent that does not come before it"));
}

}  // namespace

core::Digest digest_of_name(std::string_view name) noexcept {
  return core::digest_leaf(std::as_bytes(std::span(name)));
}

core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept {
  const std::array<std::uint64_t, 9> parts{head.rank,
                                           head.lane,
                                           head.step,
                                           static_cast<std::uint64_t>(head.phase),
                                           head.depth,
                                           module.high,
                                           module.low,
                                           op.high,
                                           op.low};
  return core::digest_leaf(std::as_bytes(std::span(parts)));
}

KeyNumbers number_keys(const Keys& baseline, const Keys& candidate, std::size_t at_once) {
  constexpr unsigned kBits = 64;
  const std::size_t records = baseline.size() + candidate.size();
  unsigned bits = 0;  // of a key's first ones, by which it belongs to a pass
  while (bits < kBits - 1 && records >> bits > at_once) ++bits;
  KeyNumbers numbers;
  numbers.baseline.resize(baseline.size());
  numbers.candidate.resize(candidate.size());
  for (std::uint64_t pass = 0; pass < std::uint64_t{1} << bits; ++pass) {
    Numbering<core::Digest, LowHalf> known;
    const auto number = [&](const Keys& keys, Ops& into) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (bits != 0 && keys[i].high >> (kBits - bits) != pass) continue;
        into[i] = numbers.distinct + known.number_of(keys[i]);
        if (into[i] < UINT32_MAX - 1) continue;
        throw core::Error(core::ErrorKind::kNotComparable,
                          "the dumps hold more kinds of operators than can be aligned");
      }
    };
    number(baseline, numbers.baseline);
    number(candidate, numbers.candidate);
    numbers.distinct += known.size();
  }
  return numbers;
}

SideRecords read_side(const core::DumpSource& source,
                      bool top_only,
                      const NameRewriter& names,
                      std::vector<std::uint64_t>& rewritten,
                      Pace* pace) {
  SideRecords side;
  SideKeys keys(names, rewritten);
  const std::uint64_t count = source.op_count();
  if (count >= kUnmatched) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      source.location() + " holds more operators than can be aligned");
  }
  // What encloses each record; empty as long as nothing is nested.
  Ops parents;
  Ops depths;
  side.keys.reserve(count);
  side.streams.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const core::OpRecord head = source.op_head(i);
    const auto op = static_cast<std::uint32_t>(i);
    expect_sound(source, head, i);
    bool renamed = false;
    side.keys.push_back(keys.key_of(head, renamed));
    if (renamed) {
      side.renamed.resize(count);
      side.renamed[i] = true;
    }
    const bool is_nested = head.parent >= 0;
    if (core::is_returned(head)) {
      side.kept.returned.push_back(op);
    } else if (!top_only || !is_nested) {
      side.streams.push_back({head.rank, head.lane, op});
    }
    if (is_nested && parents.empty()) {
      parents.assign(count, kUnmatched);
      depths.assign(count, 0);
    }
    if (is_nested) {
      parents[i] = static_cast<std::uint32_t>(head.parent);
      depths[i] = head.depth;
    }
    if (pace != nullptr) pace->add(1);
  }
  if (!std::ranges::is_sorted(side.streams)) std::ranges::sort(side.streams);
  for (const StreamOp& at : side.streams) {
    if (side.kept.ranks.empty() || side.kept.ranks.back() != at.rank) {
      side.kept.ranks.push_back(at.rank);
    }
  }
  Ops& completion = side.kept.completion;
  completion = completion_order(count, parents, depths);
  if (top_only) keep_top(parents, side.kept);
  if (!side.kept.returned.empty()) {
    std::erase_if(completion, [&](std::uint32_t op) {
      return std::ranges::binary_search(side.kept.returned, op);
    });
  }
  return side;
}

}  // namespace repro_check::comparators
