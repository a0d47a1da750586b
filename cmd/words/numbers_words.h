// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "comparators/report/report.h"

namespace repro_check::cmd {

/// What is counted as compared: `record` where numbers are judged, else `operator`.
std::string_view compared_noun(const comparators::Report& report) noexcept;

/// `losses, parameters of 8 steps and 2 results`; empty where none was judged.
std::string numbers_text(const comparators::NumbersSummary& numbers);

/// Behind the numbers of a pass: ` bit-equal; 31 operators differ; gradients not recorded`.
std::string numbers_pass_text(const comparators::Report& report);

/// Why numbers could not be judged, where nothing else is the reason; empty where they were.
std::string numbers_trouble(const comparators::Report& report);
/// What to do about it.
std::string numbers_mend(const comparators::Report& report);

/// Which operators differ, beside the numbers: `12 differ, of 472 | 476: 4 only in the
/// baseline (aten::reshape 4), ...`; empty where that is not known.
std::string changed_text(const comparators::NumbersSummary& numbers);

}  // namespace repro_check::cmd
