// SPDX-License-Identifier: Apache-2.0
#include "cmd/html_flag.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <string_view>

#include "cmd/logging.h"
#include "cmd/output.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

constexpr std::string_view kPrefix = "html=";

/// Where a page opens: at the first operator that is not fine.
std::string place_in_page(const comparators::Report& report) {
  const auto& first = report.first_divergence;
  if (!first) return {};
  return first->baseline_index ? fmt::format("#op-{}", *first->baseline_index)
                               : fmt::format("#op-c{}", first->candidate_index.value_or(0));
}

}  // namespace

void HtmlFlag::define(CLI::App& app) {
  app.add_option("--report", requests_, "Write a report to a file as well: html=FILE")
      ->type_name("FORMAT=FILE")
      ->allow_extra_args(false);
}

void HtmlFlag::check() const {
  for (const std::string& request : requests_) {
    if (!request.starts_with(kPrefix) || request.size() == kPrefix.size()) {
      throw core::Error(core::ErrorKind::kUsage,
                        fmt::format("--report {}: not html=FILE", request),
                        "for example --report html=report.html");
    }
    require_writable(request.substr(kPrefix.size()));
  }
}

void HtmlFlag::write(std::span<const comparators::Report> reports,
                     const RenderOptions& options) const {
  if (requests_.empty() || reports.empty()) return;
  const std::string page = render_html(reports, options);
  for (const std::string& request : requests_) {
    const std::string file = request.substr(kPrefix.size());
    write_file(file, page);
    log_info("report written to " + file + place_in_page(reports.front()));
  }
}

}  // namespace repro_check::cmd
