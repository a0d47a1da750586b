// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/side_records.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include "comparators/align/align.h"
#include "comparators/align/object_memo.h"
#include "comparators/align/pace.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

using Ops = core::LargeVector<std::uint32_t>;

/// Keys of one side's records, by the names that the other side may know them by.
class SideKeys {
 public:
  SideKeys(const NameRewriter& names, std::vector<std::uint64_t>& rewritten)
      : names_(names), rewritten_(rewritten) {}

  /// @param renamed  set where the map rewrote a name of it
  core::Digest key_of(const core::OpRecord& head, bool& renamed) {
    const Id op = operator_id(head.op);
    const Id module = module_id(head.site);
    for (const Id& id : {op, module}) {
      if (id.entry) ++rewritten_[*id.entry];
      renamed = renamed || id.changed;
    }
    return detail::key_of(head, module.name, op.name);
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

  Id operator_id(const std::shared_ptr<const core::OperatorInfo>& op) {
    return operators_.of(op, [&] { return id_of(names_.operator_name(*op)); });
  }

  Id module_id(const std::shared_ptr<const core::CallSite>& site) {
    return sites_.of(
        site, [&] { return id_of(names_.module_path(site ? site->module_path : std::string())); });
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

}  // namespace

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
  Nesting nesting;
  for (std::uint64_t i = 0; i < count; ++i) {
    const core::OpRecord head = source.op_head(i);
    expect_sound(source, head, i);
    bool renamed = false;
    side.keys.push_back(keys.key_of(head, renamed));
    if (renamed) {
      side.renamed.resize(count);
      side.renamed[i] = true;
    }
    const bool returned = core::is_returned(head);
    if (returned) side.kept.returned.push_back(static_cast<std::uint32_t>(i));
    side.streams.add(head, returned || (top_only && head.parent >= 0));
    nesting.see(head, i, count);
    if (pace != nullptr) pace->add(1);
  }
  side.streams.finish();
  side.kept.ranks = side.streams.ranks();
  if (nesting.nested) {
    side.kept.completion = completion_order(nesting.parents, nesting.depths);
  } else {
    side.kept.completion.resize(count);
    std::iota(side.kept.completion.begin(), side.kept.completion.end(), 0U);
  }
  if (top_only && nesting.nested) keep_top(nesting.parents, side.kept);
  if (!side.kept.returned.empty()) {
    std::erase_if(side.kept.completion, [&](std::uint32_t op) {
      return std::ranges::binary_search(side.kept.returned, op);
    });
  }
  return side;
}

}  // namespace repro_check::comparators::detail
