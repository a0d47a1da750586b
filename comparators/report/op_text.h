// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// The record that stands for a call: the baseline's where it has one.
const core::OpRecord& shown_record(const OpDivergence& op) noexcept;
std::uint64_t shown_index(const OpDivergence& op) noexcept;

/// Path of the module that called it, empty where that is not known. Borrowed.
std::string_view module_of(const core::OpRecord& record) noexcept;

/// `1 operator`, `2 operators`.
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace repro_check::comparators

namespace repro_check::comparators::detail {

/// `aten::add.Tensor`; `unknown operator` for a record without one.
std::string operator_text(const core::OpRecord& record);

/// `op 41 aten::addmm (encoder.layers.3.linear1)`
std::string op_text(const core::OpRecord& record);

/// What names an operator, without its tensors, arguments and results.
core::OpRecord head_of(const core::OpRecord& record);

}  // namespace repro_check::comparators::detail
