// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "configs/spec/run_config.h"
#include "core/error.h"

namespace repro_check::cmd {

/// `run --vary compile`: records a program with nothing compiled, then with ever more of what
/// `torch.compile` does, up to the first rung on which a tensor at the border of a region leaves
/// the floor of float64; and writes the report.
/// @param config  of a program; its first run is what is varied
/// @param force   replace what no earlier `run` has recorded
/// @throws core::Error{kUsage} for a model; as record()
core::ExitCode climb_rungs(const configs::Config& config,
                           bool force,
                           const ReportFlags& flags,
                           const GlobalOptions& globals);

}  // namespace repro_check::cmd
