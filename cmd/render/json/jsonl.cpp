// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/jsonl.h"

#include <algorithm>
#include <string_view>

#include "cmd/render/formats.h"
#include "cmd/render/json/json_alignment.h"
#include "cmd/render/json/json_coverage.h"
#include "cmd/render/json/json_op.h"
#include "cmd/render/json/json_report.h"
#include "cmd/render/json/json_text.h"

namespace repro_check::cmd {
namespace {

using comparators::OpDivergence;
using comparators::OpState;
using comparators::Report;

std::string line(const Json& json) { return to_document(json, false); }

std::string_view state_name(OpState state) noexcept {
  switch (state) {
    case OpState::kEqual:
      return "equal";
    case OpState::kWithin:
      return "within_policy";
    case OpState::kSkipped:
      return "skipped";
    default:
      return "not_judged";
  }
}

}  // namespace

std::string jsonl_header(const Report& report, const RenderOptions& options) {
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

std::string jsonl_op(const OpDivergence& op) {
  Json out{{"type", "op"}};
  out.update(json_op(op));
  return line(out);
}

std::string jsonl_fine_op(const OpDivergence& op, OpState state) {
  Json out{{"type", "op"}};
  out["key"] = json_key(op);
  out["op_index"] = json_op_index(op);
  out["matched_by"] = json_matched_by(op.matched_by);
  out["relation"] = state_name(state);
  if (state != OpState::kEqual) out["outputs"] = json_tensors(op.outputs);
  return line(out);
}

std::string jsonl_end(const Report& report, std::uint64_t shown) {
  std::string text;
  for (const std::string& warning : report.warnings) {
    text += line(Json{{"type", "warning"}, {"text", json_text(warning)}});
  }
  Json out{{"type", "verdict"}};
  out.update(json_verdict(report));
  out["coverage"] = json_coverage(report.coverage);
  out["shown"] = json_integer(shown);
  out["total"] = json_integer(std::max(shown, report.divergences_total));
  out["compare_seconds"] = json_number(report.seconds);
  return text + line(out);
}

std::string render_jsonl(std::span<const Report> reports, const DocumentOptions& options) {
  std::string out;
  for (const Report& report : reports) {
    out += jsonl_header(report, options);
    if (report.first_divergence) out += jsonl_op(*report.first_divergence);
    for (const OpDivergence& op : report.divergences) out += jsonl_op(op);
    out += jsonl_end(report, report.divergences.size() + (report.first_divergence ? 1 : 0));
  }
  return out;
}

}  // namespace repro_check::cmd
