// SPDX-License-Identifier: Apache-2.0
#include "configs/recorded_run.h"

#include <nlohmann/json.hpp>

namespace repro_check::configs {

bool verifies_inputs(const std::string& configuration) {
  using Json = nlohmann::json;
  const Json run = Json::parse(configuration, nullptr, false);
  const Json::json_pointer verifies("/dump/verify_inputs");
  return run.is_object() && run.contains(verifies) && run.at(verifies) == true;
}

}  // namespace repro_check::configs
