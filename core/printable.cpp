// SPDX-License-Identifier: Apache-2.0
#include "core/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace repro_check::core {
namespace {

struct Decoded {
  std::size_t length = 0;  ///< bytes; 0 = not UTF-8
  std::uint32_t code = 0;
};

/// Reads one code point at the start of `text`, which is not empty.
Decoded decode(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  std::uint32_t code = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {length, code};
}

/// Characters that move the cursor, hide text or reorder it.
bool is_unsafe(std::uint32_t code) noexcept {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

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

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const Decoded next = decode(text.substr(at));
    const std::size_t length = next.length == 0 ? 1 : next.length;
    if (at + length > limit) return out + "...";
    if (next.length == 0) {
      fmt::format_to(std::back_inserter(out),
                     "\\x{:02x}",
                     static_cast<unsigned>(static_cast<std::uint8_t>(text[at])));
    } else if (is_unsafe(next.code)) {
      append_escaped(out, next.code);
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.length == 0) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

}  // namespace repro_check::core
