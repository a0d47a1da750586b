// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/stack.h>

#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::capture {

/// The arguments of the call: the last ones of the interpreter's whole stack (trap 1).
inline c10::IValue* arguments_of(const OperatorPlan& plan, torch::jit::Stack& stack) {
  return stack.data() + (stack.size() - plan.arguments.size());
}

/// Closes every dropout door that stands open, and notes each.
void close_doors(const OperatorPlan& plan,
                 torch::jit::Stack& stack,
                 std::vector<core::Substitution>& noted);

}  // namespace repro_check::capture
