// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Keeps the order in which keys were set.
using Json = nlohmann::ordered_json;

/// Text from outside, invalid UTF-8 replaced.
Json json_text(std::string_view text);
/// null where the text is empty.
Json json_text_or_null(std::string_view text);
/// A number up to 2^53-1, a decimal string above: readers that know only doubles would lose it.
Json json_integer(std::uint64_t value);
Json json_integer(std::int64_t value);
Json json_integer(const std::optional<std::uint64_t>& value);
/// Finite numbers as they are; "nan", "inf", "-inf".
Json json_number(double value);
Json json_number(const comparators::Metric& value);

/// The text of it, with what could steer a terminal or a CI log as \uXXXX.
std::string json_piece(const Json& json, bool pretty);
/// The same with a newline: a document, or a line of one.
std::string to_document(const Json& json, bool pretty);

}  // namespace repro_check::cmd
