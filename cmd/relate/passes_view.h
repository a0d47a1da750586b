// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/relate/shadow.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/relate/two_passes.h"
#include "core/error.h"

namespace repro_check::cmd {

/// Writes whether two forward passes agree.
/// @param shadow  null where none was asked
/// @throws core::Error{kIo}
core::ExitCode emit_passes(const comparators::TwoPasses& passes,
                           const comparators::RelateReport& report,
                           const ShadowDump* shadow,
                           const ReportFlags& flags,
                           const GlobalOptions& globals);

}  // namespace repro_check::cmd
