// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/cause/cause.h"
#include "comparators/walk/walk.h"

namespace repro_check::comparators {

/// Judges what the calls of both runs returned, into Report::returned.
/// @param evidence  of the walk through all operators
void judge_returned(const WalkContext& context, const Evidence& evidence);

}  // namespace repro_check::comparators
