// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

Role verdict_role(Status status) noexcept;
Role relation_role(Relation relation) noexcept;

using comparators::module_of;
using comparators::shown_index;
using comparators::shown_record;
/// Operator name without its overload, not escaped; `(no operator)` for a record that names none.
std::string operator_text(const core::OpRecord& record);
/// `aten::addmm in encoder.layers.3.linear1`, not escaped.
std::string operator_in_module(const OpDivergence& op);

/// The first divergence and the further ones, in trace order. Borrowed.
std::vector<const OpDivergence*> every_divergence(const Report& report);

/// What stands before an op index that is not the baseline's: `candidate `.
std::string_view index_owner(const OpDivergence& op) noexcept;

/// `op 41 aten::addmm (encoder.layers.3.linear1, model.py:123)`, in colours.
Line op_line(const OpDivergence& op);
Line op_line(std::uint64_t index, const core::OpRecord& record);

/// Whether the verdict is about tensors that the runs were given: it blames no operator.
bool is_from_named(const Report& report) noexcept;

/// Where a sample stands: `[0, 17]`.
std::string index_text(const comparators::Sample& sample);
/// Index, both sides and ULP of the first so many, below a row of those words, which is not there
/// alone. Escaped.
std::vector<std::vector<std::string>> sample_rows(const std::vector<comparators::Sample>& samples,
                                                  std::size_t most);

/// Of which elements the metrics of a tensor speak; empty where of all.
std::string slice_text(const comparators::TensorComparison& tensor);

/// `3 of 4096 elements, max 2 ULP`; what differs of one tensor pair, in a phrase, not escaped.
std::string amount_text(const comparators::TensorComparison& tensor);
/// The same of a tensor that the runs were given.
std::string amount_text(const comparators::NamedTensorDifference& tensor);
/// The reasons but for the first where it is the verdict line itself.
std::vector<std::string> unsaid_reasons(const Report& report);

/// The output that says most: beyond policy before mismatched before the rest; null when none.
const comparators::TensorComparison* leading_output(const OpDivergence& op) noexcept;

/// What set the two sides of an operator apart, in a phrase, not escaped.
std::string op_amount(const OpDivergence& op);
/// The same of a returned value, with the path of what differs: `out.n: 6 against 9`.
std::string returned_amount(const OpDivergence& op);

/// `2 compared; what else is said is of rank 1; rank 1 parts at op 41 aten::mul (head); 1 does
/// not`; empty of a single rank.
std::string ranks_text(const Report& report);

/// `step count of the optimizer not loaded: count.fc.weight.step, 3 against 0`, not escaped.
std::string restored_text(const comparators::RestoredState& state);
/// What to do about a verdict, beside the fix of its cause.
std::string mend_of(const Report& report);
/// `saved at train.py:31, loaded at train.py:12`, as far as it is known; not escaped.
std::string checkpoint_text(const comparators::ResumeSummary& resume);

/// `out/baseline, out/candidate`
std::string dumps_text(const Report& report);
/// How what the calls returned compares, in a sentence; empty where there is nothing to say of it.
std::string returned_text(const Report& report);
/// What was compared at the borders of blocks; empty where operators were.
std::string blocks_text(const Report& report);
/// What became of a training: its last loss, and since when losses and parameters are apart; empty
/// where none was recorded.
std::string training_text(const Report& report);

/// Whether what differs are the batches of a program's loaders, or what is computed of them; empty
/// where neither does.
std::string data_text(const Report& report);
/// Which seeds and settings the program of the first run set itself, and where; empty where none.
std::string program_text(const Report& report);
/// How many operators of a pass drew random numbers, and what their agreement rests on; else empty.
std::string random_text(const Report& report);

/// `train.py:28: self.embed = nn.Embedding(200, 32)`, of the first divergence; empty where the line
/// of source is not known.
std::string code_text(const Report& report);
/// What to do about a verdict: about the cause of a divergence, or about what kept it from being
/// judged.
std::string fix_of(const Report& report);

/// Where the runs part and by how much, where the verdict line says why instead.
std::optional<Line> parting_line(const Report& report);

/// The verdict line in colours; headline() is its plain text.
Line verdict_line(const Report& report);

/// What holds of a dump that core::verify_contents() has let pass.
/// @param whole  nothing of it is in a dump that was not there
std::string_view verified_text(bool whole) noexcept;

}  // namespace repro_check::cmd
