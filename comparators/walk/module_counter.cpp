// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/module_counter.h"

namespace repro_check::comparators::detail {

std::size_t ModuleCounter::find_or_add(const std::string& path) {
  const auto found = place_of_.find(path);
  if (found != place_of_.end()) return found->second;
  if (place_of_.size() == kMostModules || bytes_ + path.size() > kMostBytes) return kNowhere;
  bytes_ += path.size();
  place_of_.emplace(path, report_.modules.size());
  report_.modules.emplace_back().path = path;
  return report_.modules.size() - 1;
}

void ModuleCounter::see(const core::OpRecord& record, ModuleOutcome outcome) {
  static const std::string root;
  const std::size_t place = known_.of(
      record.site, [&] { return find_or_add(record.site ? record.site->module_path : root); });
  if (place == kNowhere) return;
  ModuleTally& tally = report_.modules[place];
  ++tally.operators;
  if (outcome == ModuleOutcome::kNotFine) ++tally.not_fine;
  if (outcome == ModuleOutcome::kNotJudged) ++tally.not_judged;
}

}  // namespace repro_check::comparators::detail
