// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comparators/cause/differences.h"

namespace repro_check::comparators::detail {

/// `threads.intra_op 2 -> 1, the only setting that differs`
/// @param suspects  one at least
std::string suspects_text(const std::vector<Suspect>& suspects);

/// What to write into a configuration so that both runs have the same.
std::string settings_advice(const std::vector<Suspect>& suspects);

}  // namespace repro_check::comparators::detail
