// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "comparators/cause/cause.h"

namespace repro_check::comparators::detail {

/// First row that holds is the cause, later ones hold as well.
void add_cause(Cause& cause, std::optional<Cause> found);

/// Where one of these, an input or output of an operator, was written by somebody else while it was
/// recorded. Either may be null.
std::optional<Cause> race_cause(const core::TensorRecord* baseline,
                                const core::TensorRecord* candidate);

/// `` `self` is memory that op 3 aten::empty allocated and that no operator has written since``, of
/// what either run reads of such memory; empty where neither is known to.
std::string describe_unwritten(const core::OpRecord& baseline,
                               const core::OpRecord& candidate,
                               const Evidence& evidence);

/// Where one model was in training mode and the other was not, or other modules of it were: that
/// comes before `cause`, which follows from it. Nothing where a manifest does not say.
void lead_with_mode(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    Cause& cause);

/// The cause when every tensor input was bit-equal: rows 10 to 24 of comparison.md 5.
Attribution attribute_compute(const core::OpRecord& baseline,
                              const core::OpRecord& candidate,
                              const OpFindings& findings,
                              const Evidence& evidence);

/// Results of another dtype, shape, layout or number from equal inputs.
Cause mismatch_cause(const OpFindings& findings, const Evidence& evidence);

}  // namespace repro_check::comparators::detail
