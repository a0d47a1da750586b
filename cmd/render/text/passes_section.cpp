// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::Report;
using comparators::RunSummary;

void add_pass(Page& page, std::string_view label, const Report& pass, const Detail& detail) {
  const std::string text = verdict_line(pass).str(false) + "; in " + dumps_text(pass);
  page.prose(label, text, detail.everything ? 20 : 3);
}

}  // namespace

std::string dumps_text(const Report& report) {
  std::string text;
  for (const RunSummary& run : report.runs) {
    text.append(text.empty() ? "" : ", ").append(escape_name(run.location));
  }
  return text;
}

Page passes_section(const Report& report, const Detail& detail) {
  Page page;
  if (report.passes.size() < 2) {
    return page;
  }
  const Report& first = report.passes[0];
  const Report& second = report.passes[1];
  if (report.kind == DivergenceKind::kUnrepeated) {
    add_pass(page, "1st pair", first, detail);
    add_pass(page, "2nd pair", second, detail);
  } else if (first.status != second.status) {
    add_pass(page, "1st pair", first, detail);
  } else if (first.status == comparators::Status::kDiverged) {
    page.prose("1st pair", "diverged at the same operator; in " + dumps_text(first), 2);
  }
  return page;
}

}  // namespace repro_check::cmd
