// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "cmd/render/html/html_assets.h"
#include "cmd/render/html/html_data.h"
#include "cmd/render/html/html_page.h"
#include "cmd/render/html/html_static.h"
#include "cmd/render/render.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

// The overview stands in front: a page shows it before it has read the rest.
std::string data_elements(std::span<const Report> reports, const RenderOptions& options) {
  Json overviews = Json::array();
  Json details = Json::array();
  for (const Report& report : reports) {
    HtmlData data = html_data(report, options);
    overviews.push_back(std::move(data.overview));
    details.push_back(std::move(data.details));
  }
  return html_data_element("data", overviews) + html_data_element("details", details);
}

}  // namespace

std::string render_html(std::span<const Report> reports, const RenderOptions& options) {
  HtmlPage page{headline(reports.front()), "", data_elements(reports, options), html_scripts()};
  for (std::size_t i = 0; i < reports.size(); ++i) {
    page.main += html_static(reports[i], i, options);
  }
  page.main += html_frame();
  return html_page(page);
}

}  // namespace repro_check::cmd
