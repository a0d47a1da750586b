// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/formats.h"

#include <algorithm>
#include <array>

namespace repro_check::cmd {
namespace {

constexpr std::array kFormats{
    ReportFormat{"text", render_text_document, true},
    ReportFormat{"json", render_json_document, false},
    ReportFormat{"jsonl", render_jsonl, true},
    ReportFormat{"markdown", render_markdown, true},
    ReportFormat{"junit", render_junit, false},
    ReportFormat{"sarif", render_sarif, false},
    ReportFormat{"html", render_html_document, false},
    ReportFormat{"github", render_github, true},
    ReportFormat{"codequality", render_codequality, false},
};

}  // namespace

std::span<const ReportFormat> report_formats() noexcept { return kFormats; }

const ReportFormat* find_format(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kFormats, name, &ReportFormat::name);
  return found == kFormats.end() ? nullptr : found;
}

std::string render_text_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options) {
  RenderOptions each = options;
  each.name_pair = reports.size() > 1;
  std::string text;
  for (const comparators::Report& report : reports) {
    if (!text.empty() && options.verbosity >= 0) text += "\n";
    text += render_text(report, each);
    each.gate = nullptr;  // said once, of the runs as a whole
  }
  return text;
}

std::string render_json_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options) {
  RenderOptions each = options;
  std::string text;
  for (const comparators::Report& report : reports) {
    if (!text.empty()) text += ",";
    text += render_json(report, each);
    each.gate = nullptr;
  }
  return reports.size() > 1 ? "[\n" + text + "]\n" : text;
}

std::string render_html_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options) {
  return render_html(reports, options);
}

}  // namespace repro_check::cmd
