// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_text.h"

#include <fmt/format.h>

#include <cmath>

#include "cmd/render/text.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kGreatestExact = (std::int64_t{1} << 53) - 1;

}  // namespace

Json json_text(std::string_view text) { return clean_utf8(text); }

Json json_text_or_null(std::string_view text) {
  return text.empty() ? Json(nullptr) : json_text(text);
}

Json json_integer(std::uint64_t value) {
  return value > static_cast<std::uint64_t>(kGreatestExact) ? Json(fmt::format("{}", value))
                                                            : Json(value);
}

Json json_integer(std::int64_t value) {
  return value > kGreatestExact || value < -kGreatestExact ? Json(fmt::format("{}", value))
                                                           : Json(value);
}

Json json_integer(const std::optional<std::uint64_t>& value) {
  return value ? json_integer(*value) : Json(nullptr);
}

Json json_number(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  return value;
}

Json json_number(const comparators::Metric& value) {
  return value ? json_number(*value) : Json(nullptr);
}

std::string json_piece(const Json& json, bool pretty) {
  return core::tame_json(json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace));
}

std::string to_document(const Json& json, bool pretty) { return json_piece(json, pretty) + "\n"; }

}  // namespace repro_check::cmd
