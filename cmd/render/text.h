// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {

/// A name from outside (operator, module, file, message) made fit for one line of a terminal or a
/// CI log: controls, DEL, line and paragraph separators, bidirectional and invisible characters and
/// invalid UTF-8 become `\x1b`-style text, and no workflow command survives (`##[`, a leading
/// `::`).
std::string escape_name(std::string_view name);

/// Invalid UTF-8 replaced by U+FFFD, everything else as it is: for JSON.
std::string clean_utf8(std::string_view text);

/// Terminal columns of valid UTF-8 text; counts East Asian characters as two, errs on the wide
/// side.
std::size_t columns(std::string_view text) noexcept;

/// Of the longest front of `text` that takes no more than `width` columns.
std::size_t bytes_within(std::string_view text, std::size_t width);

/// `text` if it fits, else its head and tail around `...`.
/// @param text   valid UTF-8
/// @param width  columns, at least 5
std::string fit(std::string_view text, std::size_t width);

/// What `say` makes of each item, those that are not empty, with `between` between them.
template <typename Items, typename Say>
std::string joined(const Items& items, std::string_view between, Say say) {
  std::string out;
  for (const auto& item : items) {
    const auto& said = say(item);
    const std::string_view text = said;
    out.append(out.empty() || text.empty() ? "" : between).append(text);
  }
  return out;
}
std::string joined(const std::vector<std::string>& texts, std::string_view between);

/// Plain below 10,000, `1,204,113` above.
std::string format_count(std::uint64_t count);
/// `1 operator`, `2 operators`.
std::string format_count(std::uint64_t count, std::string_view noun);
/// Decimal SI: `812 B`, `1.5 GB`.
std::string format_bytes(std::uint64_t bytes);
/// Two significant digits and never rounded to a lie: `<0.001 %`, `>99.999 %`; exactly none `0 %`,
/// exactly all `100 %`. @param whole  0 gives `0 %`
std::string format_percent(std::uint64_t part, std::uint64_t whole);
/// `%.4g`; `nan`, `inf`, `-inf`.
std::string format_error(double value);
/// An integer below 10^6, `1.2e+06` above.
std::string format_ulp(std::uint64_t ulp);
/// `0.14 s`, `75 s`, `12 min 3 s`.
std::string format_seconds(double seconds);

/// `float32 [8, 512]`; a 0-d shape is `[]`.
std::string format_tensor_type(core::Dtype dtype, std::span<const std::int64_t> shape);
std::string format_index(std::span<const std::int64_t> index);

/// Shortest text that reads back in `dtype` (float16 and bfloat16 through float32; complex as
/// `1.5-2j`). float4 and unknown dtypes give the bytes in hexadecimal.
/// @param element  element_size(dtype) bytes, little-endian
std::string element_text(core::Dtype dtype, std::span<const std::byte> element);

/// core::place_of(), escaped.
std::string place_text(const core::CallSite* site);

/// The word as a POSIX shell reads it back, quoted only where needed; controls as $'\x1b'.
std::string shell_quote(std::string_view word);

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
