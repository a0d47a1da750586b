// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// `within_policy`, `beyond_policy`
std::string_view outcome_name(comparators::TensorOutcome outcome) noexcept;
/// One operator that is not fine: the schema's `op`.
Json json_op(const comparators::OpDivergence& op);
/// {phase, operator, module, occurrence}
Json json_key(const comparators::OpDivergence& op);
/// {baseline, candidate}
Json json_op_index(const comparators::OpDivergence& op);
/// The schema's `tensor`, one each.
Json json_tensors(const std::vector<comparators::TensorComparison>& tensors);
/// {file, line, column}; null when not known.
Json json_source(const core::OpRecord& record);
/// null, or every metric by name.
Json json_metrics(const std::optional<comparators::TensorMetrics>& metrics);
Json json_samples(const std::vector<comparators::Sample>& samples);
/// Position of the generator an operator drew from, per side; null when neither recorded one.
Json json_rng(const comparators::OpDivergence& op);

}  // namespace repro_check::cmd
