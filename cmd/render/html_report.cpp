// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "cmd/render/html_assets.h"
#include "cmd/render/html_data.h"
#include "cmd/render/html_static.h"
#include "cmd/render/html_text.h"
#include "cmd/render/render.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

/// Data above this many bytes is packed: browsers that cannot unpack it still show the rest.
constexpr std::size_t kMostPlainBytes = 256'000;

std::string sources(std::span<const HtmlAsset> assets) {
  std::string out;
  for (const HtmlAsset& asset : assets) out += fmt::format(" 'sha256-{}'", asset.sha256);
  return out;
}

/// Nothing but what is named here by its digest runs or styles, and nothing is loaded or sent.
std::string policy() {
  return fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src{}; "
      "style-src{}; img-src data:; base-uri 'none'; form-action 'none'\">\n",
      sources(html_scripts()),
      sources(html_styles()));
}

std::string data_element(std::string_view id, const Json& data) {
  const std::string text = script_json(data);
  if (text.size() <= kMostPlainBytes) {
    return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, text);
  }
  return fmt::format("<script type=\"application/octet-stream\" id=\"{}\">{}</script>\n",
                     id,
                     base64(deflated(text)));
}

// The overview stands in front: a page shows it before it has read the rest.
std::string data_elements(std::span<const Report> reports, const RenderOptions& options) {
  Json overviews = Json::array();
  Json details = Json::array();
  for (const Report& report : reports) {
    HtmlData data = html_data(report, options);
    overviews.push_back(std::move(data.overview));
    details.push_back(std::move(data.details));
  }
  return data_element("data", overviews) + data_element("details", details);
}

}  // namespace

std::string render_html(std::span<const Report> reports, const RenderOptions& options) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += policy();
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<meta name=\"generator\" content=\"repro-check {}\">\n", REPRO_CHECK_VERSION);
  out += "<title>" + html_text(headline(reports.front())) + "</title>\n";
  for (const HtmlAsset& style : html_styles()) {
    out += fmt::format("<style>{}</style>\n", style.text);
  }
  out += "</head>\n<body>\n<main>\n";
  for (std::size_t i = 0; i < reports.size(); ++i) out += html_static(reports[i], i, options);
  out += html_frame();
  out += "</main>\n" + data_elements(reports, options);
  for (const HtmlAsset& script : html_scripts()) {
    out += fmt::format("<script>{}</script>\n", script.text);
  }
  return out + "</body>\n</html>\n";
}

}  // namespace repro_check::cmd
