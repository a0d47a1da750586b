// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "cmd/render/text.h"
#include "cmd/render/utf8.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kGreatestExact = (std::int64_t{1} << 53) - 1;

void append_unicode_escape(std::string& out, char32_t character) {
  auto value = static_cast<std::uint32_t>(character);
  if (value > 0xFFFF) {
    value -= 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", 0xD800 + (value >> 10U));
    value = 0xDC00 + (value & 0x3FFU);
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
}

// nlohmann escapes what JSON demands, the C0 controls; a terminal obeys C1 and the bidirectional
// ones as well, and the GitHub runner `##[` anywhere in a line. All of them can only stand in
// strings, where the escape means the same text.
std::string tame(std::string_view document) {
  std::string out;
  out.reserve(document.size());
  while (!document.empty()) {
    const Utf8Char character = first_char(document);
    const bool is_line_feed = character.value == '\n';
    const bool opens_command = character.value == '#' && document.size() > 1 && document[1] == '#';
    if (character.valid && !is_line_feed && (is_hostile(character.value) || opens_command)) {
      append_unicode_escape(out, character.value);
    } else {
      out.append(document.substr(0, character.bytes));
    }
    document.remove_prefix(character.bytes);
  }
  return out;
}

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

std::string to_document(const Json& json, bool pretty) {
  return tame(json.dump(pretty ? 2 : -1)) + "\n";
}

}  // namespace repro_check::cmd
