// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/relate/shadow.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/relate/training_judgement.h"
#include "core/error.h"

namespace repro_check::cmd {

/// Two recordings, as they were named.
struct TwoNames {
  std::string a;
  std::string b;
};

/// Writes whether a training is that of one process.
/// @param shadow  null where none was asked
/// @throws core::Error{kIo}
core::ExitCode emit_trainings(const comparators::TwoTrainings& trainings,
                              const comparators::TrainingsReport& report,
                              const TwoNames& names,
                              const ShadowDump* shadow,
                              const ReportFlags& flags,
                              const GlobalOptions& globals);

}  // namespace repro_check::cmd
