// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "comparators/cause/cause.h"

namespace repro_check::comparators::detail {

/// Causes that show in the values or in how they lie in memory: rows 13 and 15 to 18 of
/// comparison.md 5. Each is empty where the row does not hold, or nothing recorded says that it
/// does.
std::optional<Cause> uninitialised_cause(const core::OpRecord& baseline,
                                         const core::OpRecord& candidate,
                                         const Evidence& evidence);
/// `` `self` is memory that op 3 aten::empty allocated and that no operator has written since``, of
/// what either run reads of such memory; empty where neither is known to.
std::string describe_unwritten(const core::OpRecord& baseline,
                               const core::OpRecord& candidate,
                               const Evidence& evidence);
std::optional<Cause> flush_cause(const OpFindings& findings);
std::optional<Cause> overflow_cause(const OpFindings& findings);
std::optional<Cause> ties_cause(const core::OpRecord& baseline, const OpFindings& findings);
std::optional<Cause> layout_cause(const OpFindings& findings);

}  // namespace repro_check::comparators::detail
