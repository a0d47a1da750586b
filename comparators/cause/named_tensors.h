// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/align/name_rewriter.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

/// Forward arguments, parameters and buffers that were not the same before the first operator, with
/// metrics where both dumps hold their bytes. Parameters and buffers of the candidate go by the
/// names that `names` gives their modules.
/// @param matched  gets, per line of its map, how many names it matched
std::vector<NamedTensorDifference> differing_named_tensors(const core::RunManifest& baseline,
                                                           const core::RunManifest& candidate,
                                                           const detail::NameRewriter& names,
                                                           detail::TensorJudge& judge,
                                                           std::vector<std::uint64_t>& matched);

/// `input`, `parameter`, `buffer`
std::string_view kind_text(core::NamedTensorKind kind) noexcept;

/// `1 of 4096 elements, max 1 ULP`, `3 of 8 elements, abs max 0.5`; the note where there are no
/// metrics.
std::string size_text(const TensorMetrics& metrics);

}  // namespace repro_check::comparators
