// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comparators/align/key_numbers.h"
#include "comparators/align/name_rewriter.h"
#include "comparators/align/streams.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

class Pace;

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
  Keys keys;  ///< per record, by the names that the other side may know them by
  Streams streams;
  core::LargeVector<bool> renamed;  ///< per record; empty where the map rewrote a name of none
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

}  // namespace repro_check::comparators::detail
