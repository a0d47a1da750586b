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

void add_pass(Page& page, std::string_view label, const Report& pass) {
  page.prose(label, verdict_line(pass).raw() + "; in " + dumps_text(pass));
}

}  // namespace

std::string dumps_text(const Report& report) {
  std::string text;
  for (const RunSummary& run : report.runs) {
    text.append(text.empty() ? "" : ", ").append(escape_name(run.location));
  }
  return text;
}

Page passes_section(const Report& report) {
  Page page;
  if (report.passes.size() < 2) {
    return page;
  }
  const Report& first = report.passes[0];
  const Report& second = report.passes[1];
  if (report.kind == DivergenceKind::kUnrepeated) {
    add_pass(page, "1st pair", first);
    add_pass(page, "2nd pair", second);
  } else if (first.status != second.status) {
    add_pass(page, "1st pair", first);
  } else if (first.status == comparators::Status::kDiverged) {
    page.prose("1st pair", "diverged at the same operator; in " + dumps_text(first));
  }
  return page;
}

}  // namespace repro_check::cmd
