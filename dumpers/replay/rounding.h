// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the last bits of its arguments do to the result of a call: private to this folder.

#include <optional>

#include "core/trace/dump.h"
#include "dumpers/replay/repeated_call.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::replay {

struct Rounding {
  std::optional<SweptOutput> moved;    ///< the floating output with the worst condition above 1000
  std::optional<SweptOutput> decided;  ///< the other output of which the largest share is another
};

/// Makes the call once for each floating argument, with another last bit in each of its numbers.
/// The condition of an output y is |dy| / |y| over |dx| / |x|, in 2-norms of finite numbers.
/// @param call  gives what was recorded
Rounding rounding_of(const core::DumpSource& dump, RepeatedCall& call);

}  // namespace repro_check::replay
