// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_replay.h"

#include <utility>

namespace repro_check::cmd {
namespace {

using comparators::ReplayEvidence;

Json json_setting(const ReplayEvidence::Setting& setting) {
  Json results = Json::array();
  for (const core::Digest& digest : setting.results) results.push_back(core::to_hex(digest));
  return {{"run", setting.of_baseline ? "baseline" : "candidate"},
          {"isa", json_text_or_null(setting.isa)},
          {"cpu_capability", json_text(setting.cpu_capability)},
          {"threads", json_integer(setting.threads)},
          {"calls", json_integer(setting.calls)},
          {"results", std::move(results)},
          {"as_recorded", setting.as_recorded ? Json(*setting.as_recorded) : Json(nullptr)}};
}

}  // namespace

Json json_replay(const comparators::Report& report) {
  if (!report.replay) return nullptr;
  const ReplayEvidence& evidence = *report.replay;
  Json settings = Json::array();
  for (const ReplayEvidence::Setting& setting : evidence.settings) {
    settings.push_back(json_setting(setting));
  }
  Json sentences = Json::array();
  for (const std::string& sentence : evidence.sentences) sentences.push_back(json_text(sentence));
  Json nearer = nullptr;
  if (const auto& ratio = evidence.reference_ratio) {
    nearer = *ratio == 1 ? "neither" : *ratio > 1 ? "candidate" : "baseline";
  }
  return {{"op_index",
           {{"baseline", json_integer(evidence.baseline_op)},
            {"candidate", json_integer(evidence.candidate_op)}}},
          {"problem", json_text_or_null(evidence.problem)},
          {"same_inputs", evidence.same_inputs},
          {"settings", std::move(settings)},
          {"float64",
           {{"baseline_rmse", json_number(evidence.baseline_rmse)},
            {"candidate_rmse", json_number(evidence.candidate_rmse)},
            {"nearer", std::move(nearer)}}},
          {"sentences", std::move(sentences)}};
}

}  // namespace repro_check::cmd
