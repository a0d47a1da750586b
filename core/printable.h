// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace repro_check::core {

/// `text` as it can be shown on one line of a terminal, whoever wrote it: control characters (C0,
/// C1, DEL), line separators and bidirectional overrides as `\n`, `\x1b`, `\u202e`; bytes that are
/// not UTF-8 as `\xff`; all else as it is. A backslash stays one: this is for reading, not for
/// parsing.
/// @param limit  bytes of `text` shown at most; what was cut is marked by `...`
std::string printable(std::string_view text,
                      std::size_t limit = std::numeric_limits<std::size_t>::max());

/// Whether `text` is well-formed UTF-8: no surrogates, nothing overlong, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

}  // namespace repro_check::core
