// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comparators/report/report.h"
#include "configs/spec/run_config.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// Whether digests alone can end in a verdict under `spec`; where they cannot, recording them first
/// gains nothing.
bool can_start_with_digests(const configs::CompareSpec& spec) noexcept;

/// Whether borders of blocks can, of which nothing but their digests can be judged.
bool can_start_with_blocks(const configs::CompareSpec& spec) noexcept;

struct MissingValues {
  core::OpRanges operators;  ///< empty: none
  core::OpRanges steps;      ///< of optimizers, whose operators were not recorded: where they begin
};

/// Which operators a second round of runs has to record with their values, so that every first
/// divergence of `reports` can be measured: `window` operators before and after it, in both of its
/// runs, and the producers of its inputs. Where it has no values (an operator that one side does
/// not have, another dtype or shape) the same of what the model returns. None when nothing is
/// missing.
MissingValues missing_values(std::span<const Report> reports, std::uint64_t window);

/// The verdict of two runs that were recorded twice.
/// @param digests  of the first recordings, with digests alone, of operators or of blocks
/// @param values   of the second ones
/// @return the second report; when it does not show the first one's divergence (the same operator
///         at the same op index), DivergenceKind::kUnrepeated, over what the pair found that did
///         diverge. Report::passes holds both.
Report settle(Report digests, Report values);

/// Keeps what `known` says of a divergence in a `report` that could not judge it, or says of none:
/// kDiverged is then among Report::also.
void carry_over(const Report& known, Report& report);

/// The verdict of two runs of which no second recording was needed.
Report settle(Report digests);

}  // namespace repro_check::comparators
