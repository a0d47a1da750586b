// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/align/names.h"
#include "comparators/report/compare_options.h"
#include "core/digest/digest.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// What aligns the records of one side, in order. A key is known by its digest, as contents are:
/// 16 bytes for each, however long the names are.
using Keys = core::LargeVector<core::Digest>;

/// Of a module path or of an operator.
core::Digest digest_of_name(std::string_view name) noexcept;

/// Of rank, lane, step, phase, depth, and the two names.
core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept;

/// Numbers below `distinct`, the same where and only where the keys are.
struct KeyNumbers {
  core::LargeVector<std::uint32_t> baseline;   ///< per record
  core::LargeVector<std::uint32_t> candidate;  ///< per record
  std::uint32_t distinct = 0;
};

/// A table of all keys would be looked up at random, which is slow once it lies in files: of many
/// records some keys are numbered at a time, by as many passes over all of them.
/// @param at_once  records whose keys one table takes, about
/// @throws core::Error{kNotComparable} when there are 2^32 - 1 keys or more
KeyNumbers number_keys(const Keys& baseline,
                       const Keys& candidate,
                       std::size_t at_once = std::size_t{1} << 20U);

/// A record and what gives it an order: the calls of one lane of one rank.
struct StreamOp {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t op = 0;

  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> stream() const { return {rank, lane}; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const StreamOp&) const = default;
};

/// What is kept of every record of one dump while it is compared.
struct RecordKeys {
  core::LargeVector<std::uint32_t> keys;  ///< numbers of the keys, as KeyNumbers has them
  /// Op indices in the order in which the calls ended; those left out of the comparison are not in
  /// it.
  core::LargeVector<std::uint32_t> completion;
  core::LargeVector<std::uint32_t> ranks;  ///< distinct, sorted
  /// Per op index the call to compare that encloses it, or itself; empty where nothing is left out.
  core::LargeVector<std::uint32_t> visible_of;
  /// Op indices of what calls returned, ascending. They are aligned by call, as no operators are.
  std::vector<std::uint32_t> returned;

  [[nodiscard]] std::uint64_t left_out() const noexcept {
    return keys.size() - completion.size() - returned.size();
  }
};

/// One side's records as they are read: what is kept of them, still without numbers for the keys,
/// and what is needed until they are aligned.
struct SideRecords {
  RecordKeys kept;
  Keys keys;                            ///< per record, by the names the other side may know
  core::LargeVector<StreamOp> streams;  ///< of the records to align, sorted
  core::LargeVector<bool> renamed;      ///< per record; empty where the map rewrote a name of none
};

/// @param top_only   leave out the calls that another one encloses
/// @param rewritten  per entry of the map, the records whose names it rewrote are added
/// @param pace       is told every record; may be null
/// @throws core::Error{kDumpDamaged} when a record cannot be read or names a parent that did not
///         come before it, {kNotComparable} when there are 2^32 - 1 of them or more
SideRecords read_side(const core::DumpSource& source,
                      bool top_only,
                      const NameRewriter& names,
                      std::vector<std::uint64_t>& rewritten,
                      Pace* pace);

}  // namespace repro_check::comparators
