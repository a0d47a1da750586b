// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/run_summaries.h"

#include <fmt/format.h>

#include <utility>

namespace repro_check::comparators::detail {

std::vector<RunSummary> summarise_runs(const core::DumpSource& baseline,
                                       const core::DumpSource& candidate) {
  std::vector<RunSummary> runs;
  for (const core::DumpSource* source : {&baseline, &candidate}) {
    RunSummary run;
    run.name = source->manifest().run_name;
    run.location = source->location();
    run.manifest = source->manifest();
    run.missing_reference = source->missing_reference();
    runs.push_back(std::move(run));
  }
  return runs;
}

void mark_damage(const std::vector<std::string>& damage, std::vector<RunSummary>& runs) {
  for (RunSummary& run : runs) {
    for (const std::string& sentence : damage) {
      if (sentence.find(run.location) == std::string::npos) continue;
      run.status = "damaged";
      run.message = sentence;
      break;
    }
  }
}

std::vector<std::string> missing_references(const std::vector<RunSummary>& runs) {
  std::vector<std::string> sentences;
  for (const RunSummary& run : runs) {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) continue;
    sentences.push_back(fmt::format(
        "{}: the bytes of {} contents were neither verified nor measured, digests alone "
        "decided there: {}",
        run.location,
        run.manifest.trace.reference->contents,
        run.missing_reference));
  }
  return sentences;
}

}  // namespace repro_check::comparators::detail
