// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_repeat.h"

#include <utility>

#include "comparators/report/repeat_summary.h"

namespace repro_check::cmd {
namespace {

using comparators::FlakyOp;
using comparators::Interval;
using comparators::OpRepeatability;
using comparators::RepeatSummary;
using comparators::Report;

Json json_interval(const Interval& interval) {
  return {{"low", json_number(interval.low)}, {"high", json_number(interval.high)}};
}

Json json_flaky(const FlakyOp& op) {
  Json counts = Json::array();
  for (const std::uint64_t count : op.counts) counts.push_back(json_integer(count));
  Json out;
  out["op_index"] = json_integer(op.index);
  out["operator"] = json_text(op.record.op ? op.record.op->full_name() : "");
  out["module"] = json_text(op.record.site ? op.record.site->module_path : "");
  out["runs"] = json_integer(op.runs());
  out["counts"] = std::move(counts);
  out["disagreement"] = json_number(op.disagreement);
  out["differs"] = json_interval(op.differs);
  out["l2_rel"] = json_number(op.l2_rel);
  out["ulp_max"] = json_integer(op.ulp_max);
  return out;
}

Json json_operators(const OpRepeatability& ops) {
  if (ops.runs == 0) return nullptr;
  Json items = Json::array();
  for (const FlakyOp& op : ops.ops) items.push_back(json_flaky(op));
  Json notes = Json::array();
  for (const std::string& note : ops.notes) notes.push_back(json_text(note));
  Json out;
  out["runs"] = json_integer(ops.runs);
  out["assessed"] = json_integer(ops.assessed);
  out["flaky"] = json_integer(ops.flaky);
  out["stable"] = json_integer(ops.assessed - ops.flaky);
  out["not_assessed"] = json_integer(ops.not_assessed);
  out["shown"] = items.size();
  out["items"] = std::move(items);
  out["notes"] = std::move(notes);
  return out;
}

/// Of two runs that agree nothing more is known than that.
RepeatSummary two_that_agree(const Report& report) {
  RepeatSummary repeat;
  for (const comparators::RunSummary& run : report.runs) {
    const bool is_first = repeat.runs.empty();
    repeat.runs.push_back({run.name, run.location, is_first ? "" : "reproducible", {}});
  }
  repeat.judged = 1;
  return repeat;
}

Json json_runs(const RepeatSummary& repeat) {
  Json out = Json::array();
  for (const comparators::RepeatedRun& run : repeat.runs) {
    Json item;
    item["name"] = json_text(run.name);
    item["dump"] = json_text_or_null(run.location);
    item["status"] = json_text_or_null(run.status);
    item["first_divergence"] = json_integer(run.first_divergence);
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace

Json json_repeat(const Report& report) {
  if (!report.repeat && report.status != comparators::Status::kReproducible) return nullptr;
  const RepeatSummary repeat = report.repeat ? *report.repeat : two_that_agree(report);
  const bool none_differs = repeat.judged != 0 && repeat.differing == 0;
  Json out;
  out["runs"] = json_runs(repeat);
  out["judged"] = json_integer(repeat.judged);
  out["differing"] = json_integer(repeat.differing);
  out["chance"] = json_interval(repeat.chance());
  out["undetected"] =
      none_differs ? json_number(comparators::undetected_share(repeat.judged)) : Json(nullptr);
  out["first_is_odd"] = repeat.first_is_odd();
  out["alike"] = repeat.alike;
  out["operators"] = json_operators(repeat.ops);
  return out;
}

}  // namespace repro_check::cmd
