// SPDX-License-Identifier: Apache-2.0
#include "core/text/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "core/text/utf8.h"

namespace repro_check::core {
namespace {

/// The short forms that everybody knows, hexadecimal for the rest.
void append_escaped(std::string& out, std::uint32_t code) {
  switch (code) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(
          std::back_inserter(out), fmt::runtime(code < 0x80 ? "\\x{:02x}" : "\\u{:04x}"), code);
  }
}

void append_json_escape(std::string& out, std::uint32_t code) {
  if (code > 0xFFFF) {
    code -= 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", 0xD800 + (code >> 10U));
    code = 0xDC00 + (code & 0x3FFU);
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Char next = first_char(text.substr(at));
    if (at + next.bytes > limit) return out + "...";
    if (!next.valid) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint32_t>(next.value));
    } else if (is_hostile(next.value)) {
      append_escaped(out, static_cast<std::uint32_t>(next.value));
    } else {
      out += text.substr(at, next.bytes);
    }
    at += next.bytes;
  }
  return out;
}

std::string tame_json(std::string_view document) {
  std::string out;
  out.reserve(document.size());
  while (!document.empty()) {
    const Utf8Char character = first_char(document);
    const bool is_line_feed = character.value == '\n';
    const bool opens_command = document.starts_with("##");
    if (!character.valid) {
      out += "\\ufffd";
    } else if (!is_line_feed && (is_hostile(character.value) || opens_command)) {
      append_json_escape(out, static_cast<std::uint32_t>(character.value));
    } else {
      out.append(document.substr(0, character.bytes));
    }
    document.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace repro_check::core
