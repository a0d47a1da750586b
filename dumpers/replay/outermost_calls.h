// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which recorded calls are executed again, each by itself: private to this folder.

#include <functional>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::replay {

/// Calls `execute` for each operator call whose results are known, but for those inside of a call
/// for which it returned true.
/// @param execute  throws core::Error where the call cannot be made: those inside of it are tried
///                 then
/// @return calls that could not be made, and have no others inside
/// @throws core::Error{kDumpDamaged}
std::vector<UnsweptCall> for_each_outermost(
    const core::DumpSource& dump, const std::function<bool(const core::OpRecord&)>& execute);

}  // namespace repro_check::replay
