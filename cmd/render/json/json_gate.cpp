// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_gate.h"

#include "cmd/render/json/json_op.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

Json json_changes(const std::vector<baselines::Change>& changes) {
  Json out = Json::array();
  for (const baselines::Change& change : changes) {
    out.push_back(Json{{"name", json_text(change.name)},
                       {"accepted", json_text(change.accepted)},
                       {"now", json_text(change.now)}});
  }
  return out;
}

Json json_list(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(json_text(text));
  return out;
}

/// What names an operator, and what differed.
Json json_found(const comparators::OpDivergence& op) {
  const core::OpRecord& record = shown_record(op);
  Json out;
  out["key"] = json_key(op);
  out["op_index"] = json_op_index(op);
  out["source"] = json_source(record);
  out["module_type"] = record.site ? json_text_or_null(record.site->module_type) : Json(nullptr);
  const bool agrees = op.outputs.empty() && op.notes.empty();
  out["differs"] = agrees ? Json(nullptr) : json_text(op_amount(op));
  return out;
}

Json json_found(const std::vector<comparators::OpDivergence>& ops) {
  Json out = Json::array();
  for (const comparators::OpDivergence& op : ops) out.push_back(json_found(op));
  return out;
}

}  // namespace

Json json_gate(const GateOutcome* gate) {
  if (gate == nullptr) return nullptr;
  Json baseline;
  baseline["state"] = state_name(gate->baseline);
  baseline["file"] = json_text_or_null(gate->file);
  baseline["changes"] = json_changes(gate->changes);
  baseline["summary"] = json_text_or_null(gate->summary);
  baseline["nearest"] = json_text_or_null(gate->nearest);
  baseline["nearest_changes"] = json_changes(gate->nearest_changes);
  Json out;
  out["name"] = json_text(gate->gate);
  out["runs"] = json_integer(gate->runs);
  out["runs_agree"] = gate->runs_agree;
  out["platform_key"] = json_text_or_null(gate->key);
  out["baseline"] = std::move(baseline);
  out["pending"] = json_text_or_null(gate->pending);
  out["refusal"] = json_text_or_null(gate->refusal);
  out["orphans"] = json_list(gate->orphans);
  out["notes"] = json_list(gate->notes);
  out["attempt"] = json_text_or_null(gate->attempt);
  out["config"] = json_text_or_null(gate->config);
  return out;
}

Json json_expected(const GateOutcome* gate) {
  Json out = Json::array();
  if (gate == nullptr) return out;
  for (const comparators::ExpectedOutcome& entry : gate->expected) {
    out.push_back(Json{{"match", json_text(entry.match)},
                       {"reason", json_text(entry.reason)},
                       {"issue", json_text_or_null(entry.issue)},
                       {"owner", json_text(entry.owner)},
                       {"expires", json_text(entry.expires)},
                       {"outcome", expected_name(entry.what)},
                       {"operators", json_integer(entry.operators)},
                       {"detail", json_text_or_null(entry.detail)},
                       {"found", json_found(entry.found)}});
  }
  return out;
}

}  // namespace repro_check::cmd
