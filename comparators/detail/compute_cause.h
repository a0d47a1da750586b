// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "comparators/detail/cause.h"

namespace repro_check::comparators::detail {

/// First row that holds is the cause, later ones hold as well.
void add_cause(Cause& cause, std::optional<Cause> found);

/// The cause when every tensor input was bit-equal: rows 10 to 24 of comparison.md 5.
Attribution attribute_compute(const core::OpRecord& baseline,
                              const core::OpRecord& candidate,
                              const OpFindings& findings,
                              const Evidence& evidence);

/// Results of another dtype, shape, layout or number from equal inputs.
Cause mismatch_cause(const OpFindings& findings, const Evidence& evidence);

}  // namespace repro_check::comparators::detail
