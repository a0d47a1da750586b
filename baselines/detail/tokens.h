// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest/digest.h"

namespace repro_check::baselines::detail {

/// A word of a line: printable ASCII without spaces; other bytes and the backslash are `\x5c`, the
/// empty text is `-`, a lone dash `\x2d`.
std::string escape_token(std::string_view text);
/// The last thing of a line, which may hold single spaces inside.
std::string escape_rest(std::string_view text);
/// The inverse of both; empty where an escape is malformed.
std::optional<std::string> unescape(std::string_view word);

core::Digest digest_text(std::string_view text);
/// `xxh3:` and 32 hexadecimal characters.
std::string digest_word(const core::Digest& digest);
std::optional<core::Digest> parse_digest_word(std::string_view word);

/// Decimal, without sign or leading zeros.
std::optional<std::uint64_t> parse_count(std::string_view word);

/// Parts of `text` between `separator`; one at least.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace repro_check::baselines::detail
