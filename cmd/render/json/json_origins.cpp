// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_origins.h"

#include "cmd/render/json/json_op.h"
#include "cmd/render/words.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

using comparators::GrowthStep;
using comparators::Origin;

Json json_step(const GrowthStep& step) {
  return {{"op_index", json_integer(step.op)},
          {"operator", json_text(step.operator_name)},
          {"module", json_text(step.module_path)},
          {"in", json_number(step.in)},
          {"out", json_number(step.out)},
          {"factor", json_number(step.factor)}};
}

Json json_step_or_null(const std::optional<GrowthStep>& step) {
  return step ? json_step(*step) : Json(nullptr);
}

Json json_origin(const Origin& origin) {
  Json outputs = Json::array();
  for (const std::uint64_t op : origin.outputs) {
    outputs.push_back(json_integer(op));
  }
  Json path = Json::array();
  for (const GrowthStep& step : origin.path) {
    path.push_back(json_step(step));
  }
  const core::OpRecord& record = origin.record;
  Json out;
  out["op_index"] = Json{{"baseline", json_integer(origin.baseline_index)},
                         {"candidate", json_integer(origin.candidate_index)}};
  out["operator"] = json_text(record.op == nullptr ? "" : record.op->full_name());
  out["module"] = json_text(record.site == nullptr ? "" : record.site->module_path);
  out["source"] = json_source(record);
  out["relation"] = relation_name(origin.relation);
  out["cause"] = json_text_or_null(comparators::cause_name(origin.cause));
  out["beyond_policy"] = origin.beyond_policy;
  out["l2_rel"] = json_number(origin.l2_rel);
  out["tainted"] = json_integer(origin.tainted);
  out["final_values"] = Json{{"total", json_integer(origin.outputs_total)}, {"ops", outputs}};
  out["path"] = Json{{"steps", json_integer(origin.path_steps)}, {"items", path}};
  return out;
}

}  // namespace

Json json_origins(const comparators::Report& report) {
  Json out = Json::array();
  for (const Origin& origin : report.origins) {
    out.push_back(json_origin(origin));
  }
  return out;
}

Json json_growth(const comparators::Report& report) {
  const comparators::Growth& growth = report.growth;
  Json out;
  out["origins"] = json_integer(report.origins_total);
  out["final_values"] = json_integer(report.final_values);
  out["first"] = json_step_or_null(growth.first);
  out["last"] = json_step_or_null(growth.last);
  out["ratio"] = json_number(growth.ratio);
  out["steepest"] = json_step_or_null(growth.steepest);
  out["amplified"] = json_integer(growth.amplified);
  out["damped"] = json_integer(growth.damped);
  out["carried"] = json_integer(growth.carried);
  out["absorbed"] = json_integer(growth.absorbed);
  out["steep"] = json_integer(growth.steep);
  out["exceeded"] = growth.exceeded;
  return out;
}

}  // namespace repro_check::cmd
