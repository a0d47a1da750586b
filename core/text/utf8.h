// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace repro_check::core {

/// The character at the front of a text. An invalid sequence is one byte long and not valid.
struct Utf8Char {
  char32_t value = 0;
  std::size_t bytes = 0;
  bool valid = false;
};

/// Strict UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
/// @param text  not empty
Utf8Char first_char(std::string_view text) noexcept;

/// Whether `text` is well-formed UTF-8 throughout.
bool is_utf8(std::string_view text) noexcept;

/// Whether a character must not reach a terminal as it is: it moves the cursor, starts an escape
/// sequence, ends a line, reorders the text around it or cannot be seen at all.
bool is_hostile(char32_t character) noexcept;

}  // namespace repro_check::core
