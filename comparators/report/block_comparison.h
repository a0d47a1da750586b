// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/block_row.h"

namespace repro_check::comparators {

/// The first border of a block that is not fine.
struct BlockDivergence {
  enum class Kind : std::uint8_t {
    kMissing,  ///< called in one of the runs
    kOutput,   ///< what came out differs
  };
  static constexpr Kind kLastKind = Kind::kOutput;
  /// What went in.
  enum class Input : std::uint8_t { kUnknown, kEqual, kDiffers };
  static constexpr Input kLastInput = Input::kDiffers;

  Kind kind = Kind::kMissing;
  Input input = Input::kUnknown;
  bool of_baseline = true;        ///< whose call `border` is
  std::uint64_t position = 0;     ///< among the blocks of that dump
  std::uint64_t counterpart = 0;  ///< of kOutput, among those of the candidate
  core::BlockRow border;
  std::optional<core::Digest> other_in;  ///< of the candidate
  std::optional<core::Digest> other_out;
  std::optional<core::BlockRow> agreed;  ///< the call before it; empty = there is none
};

/// The first parameter that differs behind a step.
struct ParameterDivergence {
  std::uint32_t step = 0;
  std::string name;
  std::optional<core::Digest> baseline;
  std::optional<core::Digest> candidate;
  std::optional<std::uint32_t> read_equal;  ///< the last step before in which it was read equal
};

/// What two recordings of blocks say at their borders, and of parameters between steps.
struct BlockComparison {
  std::uint64_t blocks = 0;     ///< paths that both runs called
  std::uint64_t steps = 0;      ///< with a call of them
  std::uint64_t compared = 0;   ///< calls in both runs of which what came out was read
  std::uint64_t differing = 0;  ///< of those
  std::uint64_t missing = 0;    ///< calls in one of the runs
  /// Of differing and missing: on threads beside the main one, whose race may decide which call of
  /// them is which. They are not judged.
  std::uint64_t of_threads = 0;
  std::uint64_t unread = 0;                ///< calls in both of which nothing could be opened
  std::string first_unread;                ///< path
  std::uint64_t every = 1;                 ///< borders of each so many-th step were recorded
  std::uint64_t losses = 0;                ///< of the baseline: their records are compared
  std::uint64_t updates = 0;               ///< of the baseline: steps of optimizers
  std::uint64_t exchanges = 0;             ///< of the baseline: collectives and messages
  std::uint64_t parameters = 0;            ///< compared, behind a step each
  std::uint64_t parameters_differing = 0;  ///< of those
  std::uint64_t parameters_unread = 0;     ///< that moved meanwhile, or were read in one run alone
  bool borders_aside = false;              ///< they are counted, and not judged: see --numbers
  std::vector<std::string> unopened;       ///< types at borders that are not read
  std::vector<std::string> not_seen;       ///< modules that were to be blocks, and were not called
  std::optional<BlockDivergence> first;
  std::optional<ParameterDivergence> first_parameter;
  /// The last step behind which each parameter had been read, and was equal, before the first of
  /// those.
  std::optional<std::uint32_t> settled;

  [[nodiscard]] bool parts() const noexcept { return parameters_differing + borders_apart() != 0; }
  [[nodiscard]] std::uint64_t borders_apart() const noexcept {
    return borders_aside ? 0 : differing + missing - of_threads;
  }
  /// Calls of which nobody can say whether they agree.
  [[nodiscard]] std::uint64_t borders_open() const noexcept {
    return borders_aside ? 0 : unread + of_threads;
  }
};

}  // namespace repro_check::comparators
