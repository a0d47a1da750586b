// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comparators/report/finding.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// Why two recordings cannot be a pass, whatever their operators say.
struct Obstacles {
  std::vector<std::string> reasons;  ///< sentences; empty = there is none
  Phrases notes;                     ///< what could not be looked at
  std::string mend;
};

/// Of how the programs ended, and of hooks of the recorder that failed.
Obstacles obstacles_of(const core::RunManifest& baseline, const core::RunManifest& candidate);

/// `exit code 3`, `SIGKILL`, `exit code 1, by ValueError at train.py:12`; `unknown`.
std::string describe(const core::ProgramEnd& end);

/// `at_step failed 3 times (ValueError: no such parameter)`, of each hook; empty for none.
std::string describe(const std::vector<core::HookFailure>& notes);

}  // namespace repro_check::comparators
