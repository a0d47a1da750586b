// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// Keeps the order of keys: inputs and dictionaries have one.
using Json = nlohmann::ordered_json;

/// Of a value that an error quotes.
inline constexpr std::size_t kShownLength = 60;

inline constexpr std::size_t kDeepestNesting = 64;

/// Parses JSON more strictly than the library does by itself. Duplicate keys (the first is kept),
/// nesting beyond kDeepestNesting, integers beyond 64 bits and syntax errors, the last with line
/// and column, are problems.
/// @param pointer  where in the configuration the text stands; "" for the whole
/// @return empty when there is no document to go on with
std::optional<Json> parse_json(std::string_view text,
                               const std::string& pointer,
                               Problems& problems);

/// Whether the text is one JSON value, as far as syntax goes.
bool is_json(std::string_view text);

}  // namespace repro_check::configs::detail
