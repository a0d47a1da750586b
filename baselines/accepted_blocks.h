// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/block_row.h"
#include "core/trace/dump.h"

namespace repro_check::baselines {

/// A call of a block, and a parameter behind a step, of one rank.
struct AcceptedCall {
  std::uint32_t rank = 0;
  core::BlockRow row;  ///< without the module's flag, and the count of what was not opened
  bool operator==(const AcceptedCall&) const = default;
};
struct AcceptedUpdate {
  std::uint32_t rank = 0;
  core::ParameterRow row;
  bool operator==(const AcceptedUpdate&) const = default;
};

/// So many steps of a rank that follow each other, where there is too much for a line each.
struct AcceptedSteps {
  std::uint32_t rank = 0;
  std::uint32_t first = 0;  ///< a multiple of `width`
  std::uint32_t width = 1;  ///< the same for all of a file
  std::uint64_t lines = 0;
  core::Digest digest;  ///< of their records, calls and parameters; not of what went into a call
  bool operator==(const AcceptedSteps&) const = default;
};

/// What a recording of blocks has beside its records.
struct AcceptedBlocks {
  std::uint64_t blocks = 0;                ///< paths
  std::uint64_t call_count = 0;            ///< of `calls`, also where they are folded
  std::uint64_t parameter_count = 0;       ///< the same of `parameters`
  std::vector<AcceptedCall> calls;         ///< in trace order, those beside the main thread behind
  std::vector<AcceptedUpdate> parameters;  ///< by step and name
  std::vector<AcceptedSteps> folded;  ///< ascending; then there are no calls, parameters and ops
  bool operator==(const AcceptedBlocks&) const = default;
};

/// @throws core::Error{kDumpDamaged}
AcceptedBlocks blocks_in(const core::DumpSource& dump);

/// Sets the counts by what is there.
void count_anew(AcceptedBlocks& blocks);

/// `2 of 12 calls of blocks change, first encoder.0 (step 2, forward)`; empty where none does. What
/// goes into a call is no change.
std::string describe_changes(const AcceptedBlocks& accepted, const AcceptedBlocks& now);

}  // namespace repro_check::baselines
