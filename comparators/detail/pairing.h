// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comparators/align.h"
#include "core/dump_source.h"

namespace repro_check::comparators::detail {

/// What is kept of every record of one dump while it is compared.
struct RecordKeys {
  std::vector<std::uint32_t> keys;  ///< interned (rank, lane, step, phase, depth, module, operator)
  std::vector<std::uint32_t> completion;  ///< op indices in the order in which the calls ended
  std::vector<std::uint32_t> ranks;       ///< distinct, sorted
};

/// Which records of two dumps belong together.
struct Pairing {
  RecordKeys baseline;
  RecordKeys candidate;
  std::vector<std::uint32_t> candidate_of;  ///< per baseline op index, or kUnmatched
  std::vector<std::uint32_t> baseline_of;   ///< per candidate op index, or kUnmatched
  std::uint64_t matched = 0;
  bool gave_up = false;
};

/// Interns the keys of both dumps and aligns them, each (rank, lane) as a stream of its own.
/// @throws core::Error{kDumpDamaged} when a record cannot be read or names a parent that did not
///         come before it
Pairing pair_records(const core::DumpSource& baseline, const core::DumpSource& candidate);

}  // namespace repro_check::comparators::detail
