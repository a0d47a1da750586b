// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "baselines/baseline.h"
#include "cmd/gate/gate.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// What the first run gave. Borrows.
struct Results {
  const core::DumpSource& dump;
  const baselines::Baseline& now;     ///< a line an operator
  const baselines::Baseline& folded;  ///< as it would be written
};

/// The second question of a gate: compares runs that agree with what was accepted.
/// @param report  on the runs; becomes the report of the gate
void ask_baseline(const GateCase& gate,
                  const Results& results,
                  comparators::Report& report,
                  GateOutcome& outcome);

}  // namespace repro_check::cmd
