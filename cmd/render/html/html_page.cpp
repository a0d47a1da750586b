// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/html/html_page.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>

#include "cmd/render/text.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

/// Data above this many bytes is packed: browsers that cannot unpack it still show the rest.
constexpr std::size_t kMostPlainBytes = 256'000;

std::string sources(std::span<const HtmlAsset> assets) {
  std::string out;
  for (const HtmlAsset& asset : assets) out += fmt::format(" 'sha256-{}'", asset.sha256);
  return out;
}

/// Nothing but what is named here by its digest runs or styles, and nothing is loaded or sent.
std::string policy(std::span<const HtmlAsset> scripts) {
  return fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src{}; "
      "style-src{}; img-src data:; base-uri 'none'; form-action 'none'\">\n",
      sources(scripts),
      sources(html_styles()));
}

}  // namespace

std::string html_text(std::string_view name) { return xml_text(escape_name(name)); }

std::string script_json(const Json& json) {
  const bool only_ascii = true;
  std::string out;
  for (const char c : json.dump(-1, ' ', only_ascii, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_heading(std::string_view word, std::string_view rest) {
  return fmt::format("<h1><span class=\"word\">{}</span> <span class=\"rest\">{}</span></h1>",
                     word,
                     html_text(rest));
}

std::string html_answers(const HtmlAnswers& answers, const std::string& beside) {
  const auto& [title, evidence, code, reasons, fix, commands] = answers;
  std::string why;
  if (!title.empty()) {
    why = fmt::format("<div class=\"why\"><h2>Why: {}</h2><p>{}</p>{}</div>\n",
                      html_text(title),
                      html_text(evidence),
                      code.empty() ? "" : "<pre class=\"source\">" + html_text(code) + "</pre>");
  }
  why += html_list("<ul class=\"reasons\">", reasons, "</ul>\n");
  if (!fix.empty()) why += "<div class=\"fix\"><h2>Fix</h2><p>" + html_text(fix) + "</p></div>\n";
  const std::string next = joined(commands, "", [](const std::string& command) {
    return "<li><code class=\"command\">" + html_text(command) + "</code></li>\n";
  });
  if (!next.empty()) why += "<ul class=\"next\" aria-label=\"What to do next\">" + next + "</ul>\n";
  if (why.empty() && beside.empty()) return {};
  return "<div class=\"answers\">\n" + (why.empty() ? "" : "<div>\n" + why + "</div>\n") + beside +
         "</div>\n";
}

std::string html_full_text(std::string_view text) {
  return "<details class=\"card text\"><summary>The report as text</summary><pre>" +
         xml_text(text) + "</pre></details>\n";
}

std::string html_facts(const std::vector<std::pair<std::string_view, std::string>>& facts) {
  std::string out;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html_text(value));
  }
  return out.empty() ? out : "<dl class=\"facts\">\n" + out + "</dl>\n";
}

std::string html_list(std::string_view before,
                      const std::vector<std::string>& texts,
                      std::string_view after) {
  std::string items;
  for (const std::string& text : texts) {
    if (!text.empty()) items += "<li>" + html_text(text) + "</li>\n";
  }
  return items.empty() ? items : fmt::format("{}{}{}", before, items, after);
}

std::string html_row(const std::vector<std::string>& cells, bool is_named) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) {
    const bool is_head = is_named && &cell == cells.data();
    out += (is_head ? "<th scope=\"row\">" : "<td>") + html_text(cell);
    out += is_head ? "</th>" : "</td>";
  }
  return out + "</tr>\n";
}

std::string html_table(const std::vector<std::string>& heads, std::string_view rows) {
  const std::string head = joined(heads, "", [](const std::string& name) {
    return fmt::format("<th scope=\"col\">{}</th>", name);
  });
  return fmt::format(
      "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
      head,
      rows);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t at = i + k;
      group = group << 8U | (at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool is_padding = i + k > bytes.size();
      out += is_padding ? '=' : kDigits[group >> (18U - 6U * k) & 63U];
    }
  }
  return out;
}

std::string deflated(std::string_view bytes) {
  constexpr int kLevel = 6;
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()),
                               &size,
                               reinterpret_cast<const Bytef*>(bytes.data()),
                               static_cast<uLong>(bytes.size()),
                               kLevel);
  if (result != Z_OK) {
    throw core::internal_error("the data of the HTML report cannot be packed: zlib error " +
                               std::to_string(result));
  }
  out.resize(size);
  return out;
}

std::string html_data_element(std::string_view id, const Json& data) {
  const std::string text = script_json(data);
  if (text.size() <= kMostPlainBytes) {
    return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, text);
  }
  return fmt::format("<script type=\"application/octet-stream\" id=\"{}\">{}</script>\n",
                     id,
                     base64(deflated(text)));
}

std::string html_page(const HtmlPage& page) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += policy(page.scripts);
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<meta name=\"generator\" content=\"repro-check {}\">\n", REPRO_CHECK_VERSION);
  out += "<title>" + html_text(page.title) + "</title>\n";
  for (const HtmlAsset& style : html_styles()) {
    out += fmt::format("<style>{}</style>\n", style.text);
  }
  out += "</head>\n<body>\n<main>\n" + page.main + "</main>\n" + page.data;
  for (const HtmlAsset& script : page.scripts) {
    out += fmt::format("<script>{}</script>\n", script.text);
  }
  return out + "</body>\n</html>\n";
}

}  // namespace repro_check::cmd
