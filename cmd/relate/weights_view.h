// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/relate/arrival.h"
#include "comparators/relate/weights.h"
#include "core/error.h"

namespace repro_check::cmd {

/// `qkv.weight = cat(q.weight.T, k.weight.T[0:32]).to(bfloat16)`, as PyTorch would write it; rows
/// that come from nowhere are `other[32]`.
std::string relation_text(const comparators::ArrivedWeight& weight,
                          const comparators::WeightSide& sender);

/// Whether a weight is one of the sender's, whole and not changed, whatever its name.
bool is_one_as_it_is(const comparators::RelatedWeight& relation,
                     const comparators::WeightSide& sender);

/// Writes what has become of the weights of `sender`.
/// @throws core::Error{kUsage} for a format that nobody makes of it, core::Error{kIo}
core::ExitCode emit_weights(const comparators::WeightsReport& report,
                            const comparators::WeightSide& sender,
                            const std::string& sent_from,
                            const std::string& received_by,
                            const ReportFlags& flags,
                            const GlobalOptions& globals);

/// To be called before a dump is read. @throws core::Error{kUsage}
void require_weight_formats(const ReportFlags& flags);

}  // namespace repro_check::cmd
