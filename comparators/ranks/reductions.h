// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string_view>

#include "comparators/ranks/rank_roots.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// The collective that gave all ranks the gradient which an optimizer read, or the operator of the
/// backward pass where there is none, and what was done to it behind that: names and lines, each
/// with a digest of what it gave, in their order. Empty where neither made it, or what it gave was
/// not read.
/// @param step   a core::kStepRecord of the dump
/// @param names  of parameters; of the largest of these the gradient
/// @throws core::Error{kDumpDamaged}
ReplicaItems reduction_of(const core::DumpSource& dump,
                          const core::OpRecord& step,
                          const std::set<std::string_view>& names);

}  // namespace repro_check::comparators
