// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace repro_check::cmd {

// What a name from outside must become before it may stand in a format that a CI system reads. Each
// of these passes escape_name() first, so that no control, bidirectional or invisible character, no
// invalid UTF-8 and no workflow command is left; the rest is what the format itself gives a meaning
// to.

/// Text or attribute of XML 1.0: `&`, `<`, `>` and both quotes become entities. Lines of `text`
/// stay lines.
std::string xml_text(std::string_view text);

/// Data of a workflow command of the GitHub runner: `%`, CR and LF as `%25`, `%0D`, `%0A`. Lines of
/// `text` stay lines, in one physical line.
std::string annotation_text(std::string_view text);
/// Property of such a command: `:` and `,` as well.
std::string annotation_property(std::string_view text);

/// A code span of Markdown, fenced by more backticks than `text` holds in a row; fit for the cell
/// of a table. An empty text gives an empty span's place, `-`.
std::string markdown_code(std::string_view text);
/// A fenced block of Markdown: `lines` as they are given, escaped line by line.
std::string markdown_block(std::string_view lines);

/// A message of SARIF: braces doubled and the bracket before a parenthesis escaped, which would
/// otherwise be a placeholder and a link (SARIF 2.1.0, 3.11.5 and 3.11.6).
std::string sarif_text(std::string_view text);
/// A relative URI reference: every byte but unreserved characters and `/` percent-encoded (RFC
/// 3986, 2.3), so that no name becomes a scheme, a query or a fragment.
std::string uri_path(std::string_view path);

/// A word for an identifier: letters, digits, `.`, `_` and `-`; every other character becomes `_`.
std::string identifier(std::string_view text);

/// Each line of `text` through escape_name(), joined by line feeds.
std::string escape_lines(std::string_view text);
/// At most `bytes` bytes of valid UTF-8, cut between characters, with ` ...` where cut.
std::string shorten_bytes(std::string_view text, std::size_t bytes);

}  // namespace repro_check::cmd
