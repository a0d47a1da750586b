// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/module_counter.h"

namespace repro_check::comparators::detail {

void ModuleCounter::see(const core::OpRecord& record, ModuleOutcome outcome) {
  static const std::string kRoot;
  const std::string& path = record.site ? record.site->module_path : kRoot;
  auto found = place_of_.find(path);
  if (found == place_of_.end()) {
    if (place_of_.size() == kMostModules) return;
    found = place_of_.emplace(path, report_.modules.size()).first;
    report_.modules.emplace_back().path = path;
  }
  ModuleTally& tally = report_.modules[found->second];
  ++tally.operators;
  if (outcome == ModuleOutcome::kNotFine) ++tally.not_fine;
  if (outcome == ModuleOutcome::kNotJudged) ++tally.not_judged;
}

}  // namespace repro_check::comparators::detail
