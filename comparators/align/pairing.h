// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comparators/align/align.h"
#include "comparators/align/name_rewriter.h"
#include "comparators/align/side_records.h"
#include "configs/spec/run_config.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Records of one key that the alignment left over on both sides: the same call elsewhere.
struct Moved {
  std::uint32_t baseline = 0;
  std::uint32_t candidate = 0;
};

/// Which records of two dumps belong together.
struct Pairing {
  RecordKeys baseline;
  RecordKeys candidate;
  std::uint32_t distinct_keys = 0;                ///< of both sides; every key is below it
  core::LargeVector<std::uint32_t> candidate_of;  ///< per baseline op index, or kUnmatched
  core::LargeVector<std::uint32_t> baseline_of;   ///< per candidate op index, or kUnmatched
  core::LargeVector<MatchedBy> how;               ///< per baseline op index
  core::LargeVector<Moved> moved;        ///< of those without a counterpart; in baseline order
  NameRewriter names;                    ///< of the candidate
  std::vector<std::uint64_t> rewritten;  ///< per entry of the map, records of the candidate
  std::uint64_t matched = 0;             ///< operators; returned values are none
  std::uint64_t work = 0;
  std::uint64_t work_limit = 0;  ///< what the work was held to, over all streams
  bool gave_up = false;
  bool by_position = false;  ///< nothing but the place counted

  /// Pairs by what found them, in the order of MatchedBy.
  [[nodiscard]] std::array<std::uint64_t, 7> counts() const;
  void match(std::uint32_t baseline_op, std::uint32_t candidate_op, MatchedBy by);

  /// What one call returned, as op indices; kUnmatched where a side has no such call.
  struct Returned {
    std::uint32_t baseline = kUnmatched;
    std::uint32_t candidate = kUnmatched;
  };
  std::vector<Returned> returned;  ///< by rank and step
};

struct PairingOptions {
  configs::AlignMode mode = configs::AlignMode::kKeyed;
  /// Leave out nested calls of that side, which was recorded at depth `all` where the other was at
  /// `top`.
  bool top_of_baseline = false;
  bool top_of_candidate = false;
  /// Names of the candidate that are the baseline's in other words; null = none. Borrowed for as
  /// long as the pairing is used.
  const configs::NameMap* map = nullptr;
  const ModuleRenames* renames = nullptr;  ///< beside the map, in the same way
  bool without_modules = false;            ///< the module of a call does not count
  Pace* pace = nullptr;                    ///< is told every record of both sides; null = nobody is
};

/// Interns the keys of both dumps and aligns them, each (rank, lane) as a stream of its own. Work
/// of which no place is known has no order: it is paired by what went in.
/// @throws core::Error{kDumpDamaged} when a record cannot be read or names a parent that did not
///         come before it
Pairing pair_records(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const PairingOptions& options = {});

/// Names as producers of what a record reads the calls that enclose them, where nested calls are
/// left out.
void lift_producers(const RecordKeys& keys, core::OpRecord& record);

}  // namespace repro_check::comparators::detail
