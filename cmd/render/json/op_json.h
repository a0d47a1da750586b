// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_form.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

// Operators and tensors as the JSON report has them, by JsonWriter and JsonReader.

/// `operator` and `module` of a record.
void describe_names(auto f, Of<decltype(f), core::OpRecord>& record);
/// {file, line, column}; null when not known.
void describe_source(JsonWriter f, const core::OpRecord& record);
void describe_source(JsonReader f, core::OpRecord& record);
/// {baseline, candidate}
void describe_indices(auto f, auto& baseline, auto& candidate) {
  f("baseline", baseline);
  f("candidate", candidate);
}
void describe(auto f, Of<decltype(f), comparators::Relation>& relation);
void describe(auto f, Of<decltype(f), comparators::DivergenceKind>& kind);

void describe(auto f, Of<decltype(f), comparators::TensorMetrics>& metrics);
void describe(auto f, Of<decltype(f), comparators::Sample>& sample);
void describe(auto f, Of<decltype(f), comparators::TensorComparison>& tensor);

/// {phase, operator, module, occurrence}
Json json_key(const comparators::OpDivergence& op);
void describe(auto f, Of<decltype(f), core::GeneratorUse>& use);
/// What names an operator that is not fine: its key, indices, source and the type of its module.
void describe_call(auto f, Of<decltype(f), comparators::OpDivergence>& op);
/// One operator that is not fine: the schema's `op`, without its generators.
void describe(auto f, Of<decltype(f), comparators::OpDivergence>& op);
/// One that is fine: what names it, how it was found, and outputs that differ within the policy.
void describe_fine(JsonWriter f, const comparators::OpDivergence& op, comparators::OpState state);
/// Where the generators stood that it drew from: an entry of `rng`, but for its indices.
void describe_generators(auto f, Of<decltype(f), comparators::OpDivergence>& op);

}  // namespace repro_check::cmd
