// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace repro_check::core {

/// Parses a manifest's JSON; refuses what the parser would let pass: a key given twice, and nesting
/// without end.
/// @param origin  path, named in the message
/// @throws Error{kDumpDamaged}
nlohmann::ordered_json parse_strict_json(const std::string& text, const std::string& origin);

}  // namespace repro_check::core
