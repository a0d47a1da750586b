// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

/// A file of cmd/render/html, as it stands in the page.
struct HtmlAsset {
  std::string_view text;
  std::string_view sha256;  ///< base64, as a content security policy names it
};

/// In the order in which the page needs them.
std::span<const HtmlAsset> html_styles() noexcept;
std::span<const HtmlAsset> html_scripts() noexcept;
/// Those of the page about ranks.
std::span<const HtmlAsset> html_rank_scripts() noexcept;

/// The body without what the report says: where the scripts put their parts.
std::string_view html_frame() noexcept;

/// A name from outside as text of an HTML document, in an element or in a quoted attribute. What
/// escape_name() makes visible stays visible.
std::string html_text(std::string_view name);

/// What is read first. @param word  HTML; shown as a badge
std::string html_heading(std::string_view word, std::string_view rest);
/// What a page answers first: why, what to do about it, which commands say more. No HTML yet; what
/// is empty is left out.
struct HtmlAnswers {
  std::string title;  ///< of the cause
  std::string why;
  std::string code;  ///< the line of source
  std::vector<std::string> reasons;
  std::string fix;
  std::vector<std::string> commands;
};

/// @param beside  HTML of the card that stands next to them, or empty
std::string html_answers(const HtmlAnswers& answers, const std::string& beside);

/// The whole text of a report, to be opened. @param text  escaped
std::string html_full_text(std::string_view text);

/// A `<dl class="facts">` of those that have a value, which is no HTML yet; empty of none.
std::string html_facts(const std::vector<std::pair<std::string_view, std::string>>& facts);
/// `<li>` items of texts that are no HTML yet; empty of none.
/// @param before, after  HTML of the list around them, of the classes it has
std::string html_list(std::string_view before,
                      const std::vector<std::string>& texts,
                      std::string_view after);
/// @param cells    no HTML yet
/// @param is_named  whether the first of them is what the row is about
std::string html_row(const std::vector<std::string>& cells, bool is_named = false);
/// @param heads  HTML, of its columns
/// @param rows   of html_row()
std::string html_table(const std::vector<std::string>& heads, std::string_view rows);

/// JSON for the inside of a <script>: ASCII alone, and without a character that could end the
/// element or begin a comment.
std::string script_json(const Json& json);

/// RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

/// zlib's format (RFC 1950), which browsers call `deflate`.
/// @throws core::Error{kInternal}
std::string deflated(std::string_view bytes);

/// Of a page about no report: the end of its article, and what stands below.
inline constexpr std::string_view kHtmlEnd =
    "</article>\n<div class=\"tools\" id=\"tools\" hidden></div>\n<footer>Made by repro-check. "
    "This page loads nothing and sends nothing. "
    "It is no stable interface: programs read `--format json`.</footer>\n";

/// A page that loads nothing from anywhere, and in which nothing runs but its own scripts.
struct HtmlPage {
  std::string title;  ///< plain text
  std::string main;   ///< HTML: what names from outside stand in it went through html_text()
  std::string data;   ///< elements of html_data_element()
  std::span<const HtmlAsset> scripts;
};

std::string html_page(const HtmlPage& page);

/// JSON as an element that a script of the page reads; packed above 256 kB.
/// @throws core::Error{kInternal} when it cannot be packed
std::string html_data_element(std::string_view id, const Json& data);

}  // namespace repro_check::cmd
