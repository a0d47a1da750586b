// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// How many things a section may show; what it shows is whole.
struct Detail {
  bool everything = false;           ///< `-v`: all sections
  std::size_t samples = 3;           ///< elements of a tensor
  std::size_t items = 3;             ///< of one list
  std::size_t listed = kDefaultTop;  ///< further divergent operators
};

/// `out/baseline, out/candidate`
std::string dumps_text(const Report& report);

/// How what the calls returned compares, in a sentence; empty where there is nothing to say of it.
std::string returned_text(const Report& report);

/// What became of a training: its last loss, and since when losses and parameters are apart; empty
/// where none was recorded.
std::string training_text(const Report& report);

/// Which seeds and settings the program of the first run set itself, and where; empty where none.
std::string program_text(const Report& report);

/// How many operators of a pass drew random numbers, and what their agreement rests on; else empty.
std::string random_text(const Report& report);

// Sections around the divergence itself. A section without anything to say adds nothing.

void add_returned(Page& page, const Report& report);

/// What is known of runs that did not finish.
void add_unfinished(Page& page, const Report& report, const std::vector<RunLog>& logs);

/// Under level auto, what the other round of recordings said, and where its dumps are.
void add_passes(Page& page, const Report& report);

/// What N runs of one configuration say together; with everything also what a pair does.
void add_repeat(Page& page, const Report& report, const Detail& detail);

/// What was compared, by which policy, what differs around it, warnings, how to mend it.
void add_coverage(Page& page, const Report& report, const Detail& detail);

/// How the runs stand to what was accepted. @param gate  may be null
void add_gate(Page& page, const GateOutcome* gate, const Detail& detail);

/// Under `-v`: divergent operators by module, the runs, their settings.
void add_verbose(Page& page, const Report& report);

}  // namespace repro_check::cmd
