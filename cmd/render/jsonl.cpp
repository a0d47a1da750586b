// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cmd/render/formats.h"
#include "cmd/render/json_coverage.h"
#include "cmd/render/json_op.h"
#include "cmd/render/json_report.h"
#include "cmd/render/json_text.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::Report;

std::string line(const Json& json) { return to_document(json, false); }

std::string header(const Report& report, const DocumentOptions& options) {
  Json out;
  out["type"] = "header";
  out["format"] = "repro-check-lines";
  out["version"] = kReportVersion;
  out["tool"] = json_tool(report, options);
  out["policy"] = json_text_or_null(report.policy);
  out["runs"] = json_runs(report);
  out["differences"] = json_differences(report);
  return line(out);
}

std::string op_line(const OpDivergence& op) {
  Json out{{"type", "op"}};
  out.update(json_op(op));
  return line(out);
}

std::string verdict(const Report& report) {
  Json out{{"type", "verdict"}};
  out.update(json_verdict(report));
  out["coverage"] = json_coverage(report.coverage);
  const std::uint64_t shown = report.divergences.size() + (report.first_divergence ? 1 : 0);
  out["shown"] = json_integer(shown);
  out["total"] = json_integer(std::max(shown, report.divergences_total));
  out["compare_seconds"] = json_number(report.seconds);
  return line(out);
}

}  // namespace

std::string render_jsonl(std::span<const Report> reports, const DocumentOptions& options) {
  std::string out;
  for (const Report& report : reports) {
    out += header(report, options);
    if (report.first_divergence) out += op_line(*report.first_divergence);
    for (const OpDivergence& op : report.divergences) out += op_line(op);
    for (const std::string& warning : report.warnings) {
      out += line(Json{{"type", "warning"}, {"text", json_text(warning)}});
    }
    out += verdict(report);
  }
  return out;
}

}  // namespace repro_check::cmd
