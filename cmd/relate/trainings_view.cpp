// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/trainings_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cmd/relate/relation_view.h"
#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"

namespace repro_check::cmd {

template <>
inline constexpr std::string_view kWords<comparators::TrainedKind> =
    "loss|norm|gradient|state|parameter";

namespace {

using comparators::NoVerdict;
using comparators::TrainingsReport;
using comparators::TwoTrainings;

Json weight_names(const comparators::Training& training, const std::vector<std::size_t>& weights) {
  Json names = Json::array();
  for (const std::size_t weight : weights) {
    names.push_back(json_text(training.weights.weights[weight].name));
  }
  return names;
}

Json document_of(const TwoTrainings& trainings,
                 const TrainingsReport& report,
                 const TwoNames& names,
                 const ShadowDump* shadow) {
  const std::size_t processes = trainings.b.processes.size();
  Json document{
      {"format", "repro-check-trainings"},
      {"version", "1.0"},
      {"headline", nullptr},
      {"a", json_text(names.a)},
      {"b", json_text(names.b)},
      {"verdict",
       {{"status", relation_status(comparators::exit_code_of(report), report.no_verdict)},
        {"exit_code", static_cast<int>(comparators::exit_code_of(report))},
        {"reason", nullptr}}},
      {"ranks", processes},
      {"where", processes > 1 ? fmt::format("on {} ranks", processes) : "of B"},
      {"steps", report.steps},
      {"steps_a", trainings.single().steps.size()},
      {"steps_b", std::ranges::min_element(trainings.b.processes, {}, [](const auto& process) {
                    return process.steps.size();
                  })->steps.size()}};
  if (report.no_verdict != NoVerdict::kNone) {
    document["verdict"]["reason"] = json_of(report.no_verdict);
  }
  document["has_more_steps"] = document["steps_a"] != document["steps_b"];
  document["findings"] = json_of(report.findings);
  document["judged"] = Json::object();
  for (std::size_t kind = 0; kind < comparators::kTrainedKinds; ++kind) {
    document["judged"][std::string(word_of(static_cast<comparators::TrainedKind>(kind)))] =
        json_integer(report.judged[kind]);
  }
  document["unjudged"] = json_integer(report.unjudged);
  document["worst_within"] = json_number(report.worst.ratio);
  document["worst_at"] = {{"step", report.worst.step},
                          {"kind", json_of(report.worst.kind)},
                          {"tensor", json_text(report.worst.tensor)}};
  document["are_samples_known"] = report.are_samples_known;
  document["share"] = json_number(std::min(percent(trainings.related, trainings.elements),
                                           percent(trainings.related_a, trainings.elements_a)));
  document["judged_share"] = json_number(percent(report.least_elements, trainings.elements_a));
  document["unknown"] = json_integer(trainings.a.unknown + trainings.b.unknown);
  document["least_share"] = json_number(report.least);
  document["other"] = weight_names(trainings.b, trainings.other);
  document["unrelated"] = weight_names(trainings.b, trainings.unrelated);
  document["shadow"] = shadow_json(shadow);
  document["next"] = Json::array();
  const bool is_forward = !report.findings.empty() &&
                          report.findings.front().id == comparators::FindingId::kTrainingLossBeyond;
  if (is_forward) {
    const comparators::TrainedProcess& process = trainings.b.processes.front();
    document["next"].push_back(
        json_text(fmt::format("repro-check relate {} {}",
                              shell_quote(names.a),
                              shell_quote(trainings.b.dump_of(process).location()))));
  }
  document["headline"] = json_text(relation_headline("trainings", document, report.no_verdict));
  return cleaned(std::move(document));
}

std::string body_of(Json document, bool all) {
  constexpr std::size_t kShown = 8;
  document["below"] = document["findings"];
  if (!document["below"].empty() && document["verdict"]["status"] == "diverged") {
    document["below"].erase(0);
  }
  if (!all && document["below"].size() > kShown) {
    document["more_below"] = document["below"].size() - kShown;
    Json& below = document["below"];
    below.erase(below.begin() + kShown, below.end());
  }
  const bool reads_other =
      !document["findings"].empty() && document["findings"].front()["id"] == "training-reads-other";
  if (document["steps"] > 0 && !reads_other) {
    document["samples"] = {{"are_samples_known", document["are_samples_known"]}};
  }
  document["has_within"] = document["worst_within"] != 0;
  if (!document["unrelated"].empty()) document["apart"] = Json::array({document["unrelated"]});
  document["fixes"] = fixes_of(document["findings"]);
  return text_of(said_lines(view_lines("trainings"), document), 2);
}

}  // namespace

core::ExitCode emit_trainings(const TwoTrainings& trainings,
                              const TrainingsReport& report,
                              const TwoNames& names,
                              const ShadowDump* shadow,
                              const ReportFlags& flags,
                              const GlobalOptions& globals) {
  const Json document = document_of(trainings, report, names, shadow);
  emit_relation(document, flags, globals, [&](bool all) { return body_of(document, all); });
  return comparators::exit_code_of(report);
}

}  // namespace repro_check::cmd
