// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/align/align.h"
#include "comparators/align/names.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "configs/spec/run_config.h"
#include "core/digest/digest.h"
#include "core/system/memory.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Of a module path or of an operator.
core::Digest digest_of_name(std::string_view name) noexcept;

/// Of rank, lane, step, phase, depth, and the two names: 16 bytes, however long they are.
core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept;

/// The record of the other side that an op index belongs to; empty where it has none, or is none.
/// @param counterparts  per op index, as Pairing has them
inline std::optional<std::uint64_t> counterpart_in(const Ops& counterparts, std::int64_t op) {
  if (op < 0 || std::cmp_greater_equal(op, counterparts.size())) return std::nullopt;
  const std::uint32_t found = counterparts[static_cast<std::size_t>(op)];
  return found == kUnmatched ? std::nullopt : std::optional<std::uint64_t>(found);
}

/// What is kept of every record of one dump while it is compared.
struct RecordKeys {
  Ops keys;  ///< numbers, the same for the same key on both sides
  /// Op indices in the order in which the calls ended; those left out of the comparison are not in
  /// it.
  Ops completion;
  Ops ranks;  ///< distinct, sorted
  /// Per op index the call to compare that encloses it, or itself, or kUnmatched where there is
  /// none; empty where nothing is left out.
  Ops visible_of;
  std::uint64_t nested_left_out = 0;  ///< calls that a call to compare encloses
  /// Op indices of what calls returned, ascending. They are aligned by call, as no operators are.
  std::vector<std::uint32_t> returned;
};

/// Op indices of what belongs together; kUnmatched where a side has nothing.
struct OpPair {
  std::uint32_t baseline = kUnmatched;
  std::uint32_t candidate = kUnmatched;

  [[nodiscard]] bool matched() const noexcept {
    return baseline != kUnmatched && candidate != kUnmatched;
  }
};

/// Which records of two dumps belong together.
struct Pairing {
  RecordKeys baseline;
  RecordKeys candidate;
  std::uint32_t distinct_keys = 0;   ///< of both sides; every key is below it
  Ops candidate_of;                  ///< per baseline op index, or kUnmatched
  Ops baseline_of;                   ///< per candidate op index, or kUnmatched
  core::LargeVector<MatchedBy> how;  ///< per baseline op index
  /// Records of one key that were left over on both sides: the same call elsewhere. In baseline
  /// order.
  core::LargeVector<OpPair> moved;
  NameRewriter own_names;                ///< of the baseline
  NameRewriter names;                    ///< of the candidate
  std::vector<std::uint64_t> rewritten;  ///< per entry of the map, records of the candidate
  std::uint64_t matched = 0;             ///< operators; returned values are none
  AlignmentSummary summary;              ///< but for what was left over
  std::uint32_t steps_before = 0;        ///< of the candidate, as the options say

  void match(std::uint32_t baseline_op, std::uint32_t candidate_op, MatchedBy by);

  std::vector<OpPair> returned;  ///< what the calls returned, by rank and step
};

/// What of one side is looked at.
struct SideOptions {
  /// Leave out the calls that another one encloses: of the two recordings one is of depth `all`,
  /// the other of `top`.
  bool top_only = false;
  /// The first op index: of a resumed run and the one that made its checkpoint, where the part
  /// begins that both have.
  std::uint64_t from = 0;
  std::uint32_t steps_before = 0;  ///< by which its steps are counted on
  /// Op indices, ascending; null = every record. Borrowed for the call.
  const std::vector<std::uint64_t>* only = nullptr;
  std::vector<std::uint64_t> without = {};  ///< likewise; none of these
};

struct PairingOptions {
  configs::AlignMode mode = configs::AlignMode::kKeyed;
  SideOptions baseline = {};
  SideOptions candidate = {};  ///< its steps are counted on by those that the baseline had made
  /// Names of the candidate that are the baseline's in other words; null = none. Borrowed for as
  /// long as the pairing is used.
  const configs::NameMap* map = nullptr;
  const ModuleRenames* renames = nullptr;  ///< beside the map, in the same way
  bool without_modules = false;            ///< the module of a call does not count
  Pace* pace = nullptr;                    ///< is told every record of both sides; may be null
};

/// Interns the keys of both dumps and aligns them, each (rank, lane) as a stream of its own. Work
/// of which no place is known has no order: it is paired by what went in.
/// @throws core::Error{kDumpDamaged} when a record cannot be read or names a parent that did not
///         come before it
Pairing pair_records(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const PairingOptions& options = {});

/// Of two recordings of one program, of which one has the operators of optimizers' steps
/// (core::TraceSummary::optimizer) and the other what the steps left: the op indices of the former
/// that are such operators, ascending. What stands between a backward pass and a step is in both,
/// so that of the operators before the record of a step those count that are more than in the
/// other. Empty where both were recorded alike.
/// @throws core::Error{kDumpDamaged} when a record cannot be read
std::vector<std::uint64_t> operators_of_hidden_steps(const core::DumpSource& dump,
                                                     const core::DumpSource& other);

/// Names as producers of what a record reads the calls that enclose them, where nested calls are
/// left out, and none where what made it is before the part that is compared.
void lift_producers(const RecordKeys& keys, core::OpRecord& record);

/// Whether two records agree in all that was recorded of their values: tensors by dtype, shape,
/// layout and digest, inputs included, scalars exactly, and the place of the generator. A tensor
/// without a digest is known to be equal to nothing, unless it is undefined. Digests have to be of
/// one rule.
bool bit_equal(const core::OpRecord& baseline, const core::OpRecord& candidate);

/// Pairs what was called in another order, where it is bit-equal; what is not stays unmatched.
void pair_moved(const core::DumpSource& baseline,
                const core::DumpSource& candidate,
                Pairing& pairing);

/// An operator call in two digests, to find equal ones among many.
struct OpPrints {
  core::Digest inputs;  ///< arguments, input tensors, seed and place of the generator
  core::Digest results;
};

/// @return empty where there is no result to compare: none at all, none with a content, or one
///         that was left out of the recording
std::optional<OpPrints> op_prints(const core::OpRecord& record);

}  // namespace repro_check::comparators
