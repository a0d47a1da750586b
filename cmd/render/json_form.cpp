// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json_form.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "cmd/render/text.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kGreatestExact = (std::int64_t{1} << 53) - 1;

template <typename Integer>
Integer parse_whole(JsonReader f) {
  const auto text = f.json().get<std::string>();
  const auto value = core::parse_number<Integer>(text);
  if (!value) f.refuse("\"" + text + "\" is no number");
  return *value;
}

}  // namespace

Json json_text(std::string_view text) { return clean_utf8(text); }

Json json_integer(std::uint64_t value) {
  return value > static_cast<std::uint64_t>(kGreatestExact) ? Json(fmt::format("{}", value))
                                                            : Json(value);
}

Json json_integer(std::int64_t value) {
  return value > kGreatestExact || value < -kGreatestExact ? Json(fmt::format("{}", value))
                                                           : Json(value);
}

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string json_piece(const Json& json, bool pretty) {
  return core::tame_json(json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace));
}

std::string to_document(const Json& json, bool pretty) { return json_piece(json, pretty) + "\n"; }

void JsonReader::refuse(const std::string& why) const {
  throw std::invalid_argument(key_.empty() ? why : std::string(key_) + ": " + why);
}

std::uint64_t read_whole(JsonReader f) {
  const bool is_plain = f.json().is_number_unsigned();
  return is_plain ? f.json().get<std::uint64_t>() : parse_whole<std::uint64_t>(f);
}

std::int64_t read_integer(JsonReader f) {
  const bool is_plain = f.json().is_number_integer();
  return is_plain ? f.json().get<std::int64_t>() : parse_whole<std::int64_t>(f);
}

void describe(JsonReader f, double& value) {
  using Limits = std::numeric_limits<double>;
  if (!f.json().is_string()) {
    value = f.json().get<double>();
    return;
  }
  const auto text = f.json().get<std::string>();
  if (text == "nan") {
    value = Limits::quiet_NaN();
  } else if (text == "inf" || text == "-inf") {
    value = text == "inf" ? Limits::infinity() : -Limits::infinity();
  } else {
    f.refuse("\"" + text + "\" is no number");
  }
}

void describe(JsonReader f, const OrNull<std::string>& it) {
  it.text = f.json().is_null() ? std::string() : f.json().get<std::string>();
}

void describe(JsonReader f, core::Digest& digest) {
  const auto parsed = core::parse_digest(f.json().get<std::string>());
  if (!parsed) f.refuse("a digest has 32 hexadecimal digits");
  digest = *parsed;
}

}  // namespace repro_check::cmd
