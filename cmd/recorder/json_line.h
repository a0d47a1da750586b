// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace repro_check::recorder {

/// One line of the recorder's answers. They quote file names and exceptions: what is not UTF-8 in
/// them is replaced.
inline std::string to_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace repro_check::recorder
