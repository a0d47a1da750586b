// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// `aten::add.Tensor`; `unknown operator` for a record without one.
std::string operator_text(const core::OpRecord& record);

/// `op 41 aten::addmm (encoder.layers.3.linear1)`
std::string op_text(const core::OpRecord& record);

/// The record that stands for a call: the baseline's where it has one.
const core::OpRecord& record_of(const OpDivergence& op);

/// What names an operator, without its tensors, arguments and results.
core::OpRecord head_of(const core::OpRecord& record);

}  // namespace repro_check::comparators::detail
