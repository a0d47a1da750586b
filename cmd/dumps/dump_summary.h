// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "cmd/terminal/command.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {

/// What a verb makes a dump of, and how it speaks of it.
struct DumpMaking {
  std::string phase;  ///< `recovering`: for the progress
  std::string word;   ///< `RECOVERED`: how the summary begins
  std::string recording;
  std::string dump;
  std::string format = "text";  ///< text | json
};

using MakeDump = std::function<core::TraceSummary(const store::RecoveryProgress&)>;

/// Shows progress while `make` runs, and prints what came of it; a recording that cannot be read is
/// a report, as it is for every verb.
core::ExitCode make_dump(const GlobalOptions& globals,
                         const DumpMaking& making,
                         const MakeDump& make);

}  // namespace repro_check::cmd
