// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/module_counter.h"

namespace repro_check::comparators::detail {

std::size_t ModuleCounter::find_or_add(const std::string& path) {
  const auto found = place_of_.find(path);
  if (found != place_of_.end()) return found->second;
  if (place_of_.size() == kMostModules) return kNowhere;
  place_of_.emplace(path, report_.modules.size());
  report_.modules.emplace_back().path = path;
  return report_.modules.size() - 1;
}

void ModuleCounter::see(const core::OpRecord& record, ModuleOutcome outcome) {
  static const std::string root;
  const auto address = reinterpret_cast<std::uintptr_t>(record.site.get());
  KnownSite& known = known_[(address * 0x9E37'79B9'7F4A'7C15U >> 32U) % known_.size()];
  if (known.site != record.site || known.place == kNowhere) {
    known = {record.site, find_or_add(record.site ? record.site->module_path : root)};
  }
  if (known.place == kNowhere) return;
  ModuleTally& tally = report_.modules[known.place];
  ++tally.operators;
  if (outcome == ModuleOutcome::kNotFine) ++tally.not_fine;
  if (outcome == ModuleOutcome::kNotJudged) ++tally.not_judged;
}

}  // namespace repro_check::comparators::detail
