// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_form.h"

#include <charconv>
#include <limits>
#include <stdexcept>

namespace repro_check::cmd {
namespace {

template <typename Integer>
Integer parse_whole(JsonReader f) {
  const auto text = f.json().get<std::string>();
  Integer value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc{} || end.ptr != text.data() + text.size()) {
    f.refuse("\"" + text + "\" is no number");
  }
  return value;
}

}  // namespace

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

void describe(JsonReader f, std::string& text) {
  text = f.json().is_null() ? std::string() : f.json().get<std::string>();
}

void describe(JsonReader f, core::Digest& digest) {
  const auto parsed = core::parse_digest(f.json().get<std::string>());
  if (!parsed) f.refuse("a digest has 32 hexadecimal digits");
  digest = *parsed;
}

}  // namespace repro_check::cmd
