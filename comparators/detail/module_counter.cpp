// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/module_counter.h"

namespace repro_check::comparators::detail {

void ModuleCounter::see(const core::OpRecord& record, ModuleOutcome outcome) {
  static const std::string kRoot;
  const std::string& path = record.site ? record.site->module_path : kRoot;
  const auto [found, is_new] = place_of_.try_emplace(path, report_.modules.size());
  if (is_new) report_.modules.emplace_back().path = path;
  ModuleTally& tally = report_.modules[found->second];
  ++tally.operators;
  if (outcome == ModuleOutcome::kNotFine) ++tally.not_fine;
  if (outcome == ModuleOutcome::kNotJudged) ++tally.not_judged;
}

}  // namespace repro_check::comparators::detail
