// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

/// An operator that makes the error more than so many times as great is worth a warning; the factor
/// of msprobe's own row warning.
inline constexpr double kSteep = 10;
/// And a trace at whose end it is more than so many times as great as where it began.
inline constexpr double kGrowing = 100;

/// `relative L2 error 1e-07 at op 3 aten::mul (m) grew to 0.0005 at op 40 aten::mm (m), 5000
/// times`; empty where it is not known how far it grew.
std::string growth_text(const Growth& growth);

/// Warns of errors that grow although every operator is within its policy, and marks those that
/// grow beyond `max_growth`.
void judge_growth(const std::optional<double>& max_growth, Report& report);

}  // namespace repro_check::comparators::detail
