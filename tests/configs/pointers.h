// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "configs/setting_changes.h"

namespace repro_check::configs {

inline std::vector<std::string> pointers(const std::vector<SettingChange>& changes) {
  std::vector<std::string> names;
  for (const SettingChange& change : changes) names.push_back(change.pointer);
  return names;
}

}  // namespace repro_check::configs
