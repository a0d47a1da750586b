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

/// `out/baseline, out/candidate`, escaped.
std::string dumps_text(const comparators::Report& report);

/// How what the calls returned compares, in a sentence; empty where there is nothing to say of it.
std::string returned_text(const comparators::Report& report);
Page returned_section(const comparators::Report& report);

/// How many operators of a pass drew random numbers, and what their agreement rests on; else empty.
std::string random_text(const comparators::Report& report);

/// What caused the verdict, in the comparator's sentences.
Page why_section(const comparators::Report& report, const Detail& detail);

/// The evidence: outputs of the first divergent operator, the tensors the runs were given, where
/// the streams part, which operators are missing.
Page evidence_section(const comparators::Report& report, const Detail& detail);

/// What is known of runs that did not finish.
Page runs_section(const comparators::Report& report, const std::vector<RunLog>& logs);

/// The divergent operators behind the first: how many there are, every other one that is not a
/// consequence, the worst consequence, and how many were left out.
Page list_section(const comparators::Report& report,
                  const RenderOptions& options,
                  const Detail& detail);

/// Under level auto, what the other round of recordings said, and where its dumps are.
Page passes_section(const comparators::Report& report);

/// Where differences began and what they reached: where there are several, or all is wanted.
Page spread_section(const comparators::Report& report, const Detail& detail, bool all);
/// What N runs of one configuration say together; with everything also what a pair does.
Page repeat_section(const comparators::Report& report, const Detail& detail);

/// What was compared, by which policy, what differs around it, warnings, how to mend it.
Page coverage_section(const comparators::Report& report, const Detail& detail);

/// How the runs stand to what was accepted; empty without a gate.
Page gate_section(const GateOutcome* gate, const Detail& detail);

/// Under `-v`: settings of both runs, divergent operators by module.
Page verbose_section(const comparators::Report& report);

}  // namespace repro_check::cmd
