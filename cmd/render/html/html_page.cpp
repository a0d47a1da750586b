// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/html/html_page.h"

#include <fmt/format.h>

#include <cstddef>

#include "cmd/render/html/html_text.h"

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
