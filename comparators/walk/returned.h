// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/cause/cause.h"
#include "comparators/walk/walk.h"

namespace repro_check::comparators::detail {

/// Judges what the calls returned, after the operators: fills Report::returned.
/// @param evidence      of the operators, all judged
/// @param other_device  the runs were on different devices
void judge_returned(const WalkContext& context, const Evidence& evidence, bool other_device);

}  // namespace repro_check::comparators::detail
