// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/text.h"
#include "core/trace/op_record.h"

namespace repro_check::core {

/// Operators by op index, `last` included.
struct OpRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  bool operator==(const OpRange&) const = default;
};

/// In ascending order, neither overlapping nor touching.
using OpRanges = std::vector<OpRange>;

/// The same operators as a sorted list without overlaps.
OpRanges united(OpRanges ranges);

/// @param ranges  as united() gives them
bool contains(const OpRanges& ranges, std::uint64_t index) noexcept;

/// `op 3`, `op 3 to 11 and op 40`; empty for no ranges.
std::string describe(const OpRanges& ranges, std::string_view noun = "op");

/// What is kept of a tensor: its digest, its statistics as well, or its bytes as well.
enum class DumpLevel { kDigest, kStats, kTensor };
constexpr std::string_view words_of(DumpLevel /*type*/) { return "digest stats tensor"; }
/// Operators as the model calls them, the kernels they decompose into, the whole tree; or of a
/// program none, but what goes into its blocks and comes out of them.
enum class DumpDepth { kTop, kLeaf, kAll, kBlocks };
constexpr std::string_view words_of(DumpDepth /*type*/) { return "top leaf all blocks"; }

/// What is read of an optimizer's step.
enum class OptimizerReading {
  kAuto,       ///< kOperators at level tensor, else kState
  kState,      ///< once, what it leaves: parameters, gradients, and what the optimizer keeps
  kOperators,  ///< each of its operators, with what it makes
};
constexpr std::string_view words_of(OptimizerReading /*type*/) { return "auto state operators"; }

/// Which processes of a program are recorded.
enum class RecordedProcesses {
  kAll,
  kMain,  ///< one, or one of each rank: the others are neither recorded nor looked for
};
constexpr std::string_view words_of(RecordedProcesses /*type*/) { return "all main"; }

/// Which operators are recorded, and what of them.
struct RecordedOperators {
  DumpLevel level = DumpLevel::kTensor;
  DumpDepth depth = DumpDepth::kTop;
  /// Hash every input anew instead of trusting the digest cache. Those of `keep_ops` always are.
  bool verify_inputs = false;
  std::vector<std::string> include;  ///< globs on operator name or module path; empty = all
  std::vector<std::string> exclude;
  /// Collectives are not waited for where they are made: what they give is recorded where it is
  /// read.
  bool no_sync = false;
  /// At level tensor the operators whose bytes are kept; empty = all. Made by `run`, no key of a
  /// configuration.
  OpRanges keep_ops;
  bool operator==(const RecordedOperators&) const = default;
};

/// And of a program, the part that is recorded.
struct RecordedPart : RecordedOperators {
  OpRanges steps;               ///< empty = all
  std::vector<Phase> phases;    ///< empty = all
  std::uint64_t first_ops = 0;  ///< so many operators at most; 0 = all
  OptimizerReading optimizer = OptimizerReading::kAuto;
  bool workers = false;  ///< what worker processes of data loaders do is recorded as well
  RecordedProcesses processes = RecordedProcesses::kAll;
  /// At depth blocks: how many at most, or globs on module paths; empty = 20.
  std::string blocks;
  std::uint64_t every = 0;  ///< at depth blocks: borders of each so many-th step; 0 = of all
  /// As keep_ops: steps of optimizers whose operators are recorded though `optimizer` is kState, by
  /// the op index that the first of them has.
  OpRanges open_steps;
  /// As keep_ops: the steps whose batches, losses and results of optimizers are kept; empty = all.
  OpRanges keep_steps;
  /// What it saves and loads is recorded, and the state around that. No key: /program/resume says
  /// so.
  bool checkpoints = false;
  bool operator==(const RecordedPart&) const = default;
};

/// The members of a RecordedPart that are keys of a configuration, once for all that read or write
/// them: `member("level", part.level)`, and `member.unless_empty` of what is rarely given.
template <typename Visitor, typename Part>
void visit_part(const Visitor& member, Part& part) {
  member("level", part.level);
  member("depth", part.depth);
  member("verify_inputs", part.verify_inputs);
  member("include", part.include);
  member("exclude", part.exclude);
  member.unless_empty("steps", part.steps);
  member.unless_empty("phases", part.phases);
  member.unless_empty("first_ops", part.first_ops);
  member.unless_empty("optimizer", part.optimizer);
  member.unless_empty("no_sync", part.no_sync);
  member.unless_empty("workers", part.workers);
  member.unless_empty("processes", part.processes);
  member.unless_empty("blocks", part.blocks);
  member.unless_empty("every", part.every);
}

/// `0:3,100`, half-open as in Python; empty for no ranges.
std::string steps_text(const OpRanges& steps);

/// `steps 0:3; phases forward, backward; the first 500 operators`; empty for all of it.
std::string part_text(const RecordedPart& part);

}  // namespace repro_check::core
