// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/render.h"

#include <algorithm>
#include <array>

namespace repro_check::cmd {
namespace {

/// One below the other, each naming its two dumps when there are several.
std::string text_document(std::span<const Report> reports, const DocumentOptions& options) {
  RenderOptions each = options;
  each.name_pair = reports.size() > 1;
  std::string text;
  for (const Report& report : reports) {
    if (!text.empty() && options.verbosity >= 0) text += "\n";
    text += render_text(report, each);
    each.gate = nullptr;  // said once, of the runs as a whole
  }
  return text;
}

/// An object, or an array when there are several.
std::string json_document(std::span<const Report> reports, const DocumentOptions& options) {
  RenderOptions each = options;
  std::string text;
  for (const Report& report : reports) {
    if (!text.empty()) text += ",";
    text += render_json(report, each);
    each.gate = nullptr;
  }
  return reports.size() > 1 ? "[\n" + text + "]\n" : text;
}

std::string html_document(std::span<const Report> reports, const DocumentOptions& options) {
  return render_html(reports, options);
}

constexpr std::array kFormats{
    ReportFormat{"text", text_document, true},
    ReportFormat{"json", json_document, false, R"({"format":"repro-check-)"},
    ReportFormat{"jsonl", render_jsonl, true, R"({"type":"header","format":"repro-check-)"},
    ReportFormat{"markdown", render_markdown, true, "<!-- repro-check:"},
    ReportFormat{"junit", render_junit, false, "<?xml", R"(<testsuites name="repro-check")"},
    ReportFormat{"sarif", render_sarif, false, "{", R"("driver":{"name":"repro-check")"},
    ReportFormat{"html", html_document, false, "<!", R"("generator" content="repro-check)"},
    ReportFormat{"github", render_github, true, "::", "title=repro-check%3A "},
    ReportFormat{"codequality", render_codequality, false, "{", R"("check_name":"RC)"},
};

}  // namespace

std::span<const ReportFormat> report_formats() noexcept { return kFormats; }

const ReportFormat* find_format(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kFormats, name, &ReportFormat::name);
  return found == kFormats.end() ? nullptr : found;
}

bool is_report(std::string_view head) {
  if (head == "[]\n") return true;  // codequality of a pass
  for (int i = 0; i <= static_cast<int>(Status::kNoBaseline); ++i) {
    if (head.starts_with(verdict_word(static_cast<Status>(i)))) return true;
  }
  for (const std::string_view begins : {"HISTORY ", "PROOF ", "NO PROOF: ", "NOT AUDITED: "}) {
    if (head.starts_with(begins)) return true;
  }
  if (head.starts_with('[')) head.remove_prefix(head.starts_with("[\n") ? 2 : 1);
  return std::ranges::any_of(kFormats, [&](const ReportFormat& format) {
    return !format.begins.empty() && head.starts_with(format.begins) &&
           head.find(format.holds) != std::string_view::npos;
  });
}

}  // namespace repro_check::cmd
