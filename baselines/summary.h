// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "baselines/baseline.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::baselines {

/// One thing that is not what was accepted.
struct Change {
  std::string name;      ///< `config /seed`, `input tokens`, `model`, `cpu.capability`
  std::string accepted;  ///< `none` where there was no such thing
  std::string now;
};

/// What makes a baseline stale: configuration, inputs, and what the model is apart from its
/// numbers. Weights are none of it: another number there is what a gate is to find.
std::vector<Change> stale_reasons(const Baseline& accepted, const Baseline& now);

/// Fields in which two platforms differ, in their order.
std::vector<Change> platform_changes(const Platform& accepted, const Platform& now);

/// Whether every operator returned what was accepted. Both folded, or neither.
bool same_results(const Baseline& accepted, const Baseline& now);

/// Whether the model's parameters and buffers hold what was accepted.
bool same_weights(const Baseline& accepted, const Baseline& now);

/// For a summary: `3 of 491 operators change, first aten::addmm (encoder.0)`.
std::string describe_changes(const Baseline& accepted, const Baseline& now);

/// What would be accepted of one operator: its name, its place and its outputs.
std::string to_line(const core::OpRecord& record);
/// Its results that are no tensors; empty = there are none.
std::string scalars_of(const core::OpRecord& record);

/// What would be accepted of a recording, with a line for every operator and tensor, however many
/// there are: fold() makes the file. Only digests are read, no contents. Lane after lane, since
/// which of them was first is a matter of luck, as all order in a pool is.
/// @param platform  the recording's, see platform_of()
/// @throws core::Error{kDumpDamaged}
Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy);

/// Puts a line a module in place of a line an operator, where there are more than kMostLines; the
/// same of the tensors of a kind.
Baseline fold(Baseline baseline);

/// The same of the operators alone, however few there are: to compare with what has been folded.
Baseline fold_operators(Baseline baseline);

/// Whether it says what the calls returned: one that was accepted before that was recorded does
/// not.
bool holds_returned(const Baseline& baseline);

/// @param baseline  not folded
Baseline without_returned(Baseline baseline);

}  // namespace repro_check::baselines
