// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_coverage.h"

namespace repro_check::cmd {

Json json_coverage(const comparators::Coverage& c) {
  Json out;
  out["baseline_ops"] = json_integer(c.baseline_ops);
  out["candidate_ops"] = json_integer(c.candidate_ops);
  out["compared"] = json_integer(c.compared);
  out["equal"] = json_integer(c.equal);
  out["within_policy"] = json_integer(c.within_policy);
  out["diverged"] = json_integer(c.diverged);
  out["origins"] = json_integer(c.origins);
  out["propagated"] = json_integer(c.propagated);
  out["mismatched"] = json_integer(c.mismatched);
  out["missing_in_baseline"] = json_integer(c.missing_in_baseline);
  out["missing_in_candidate"] = json_integer(c.missing_in_candidate);
  out["skipped"] = json_integer(c.skipped);
  out["not_judged"] = json_integer(c.not_judged);
  out["tensors"] = json_integer(c.tensors);
  out["outputs"] = json_integer(c.outputs);
  out["metadata_only"] = json_integer(c.metadata_only);
  out["ignored"] = json_integer(c.ignored);
  out["not_judged_tensors"] = json_integer(c.not_judged_tensors);
  out["elements"] = json_integer(c.elements);
  out["bytes"] = json_integer(c.bytes);
  out["sliced"] = json_integer(c.sliced);
  return out;
}

Json json_rules(const comparators::Report& report) {
  Json out = Json::array();
  for (const comparators::RuleUse& rule : report.rules) {
    out.push_back(Json{{"match", json_text(rule.match)},
                       {"policy", json_text(rule.policy)},
                       {"tensors", json_integer(rule.tensors)}});
  }
  return out;
}

Json json_screened(const comparators::Screened& screened) {
  return {{"tensors", json_integer(screened.tensors)},
          {"elements", json_integer(screened.elements)},
          {"beyond", json_integer(screened.beyond)}};
}

}  // namespace repro_check::cmd
