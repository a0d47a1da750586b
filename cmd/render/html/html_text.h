// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cmd/render/json/json_text.h"

namespace repro_check::cmd {

/// A name from outside as text of an HTML document, in an element or in a quoted attribute. What
/// escape_name() makes visible stays visible.
std::string html_text(std::string_view name);

/// JSON for the inside of a <script>: ASCII alone, and without a character that could end the
/// element or begin a comment.
std::string script_json(const Json& json);

/// RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// zlib's format (RFC 1950), which browsers call `deflate`.
/// @throws core::Error{kInternal}
std::string deflated(std::string_view bytes);

}  // namespace repro_check::cmd
