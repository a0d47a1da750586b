// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/rungs_view.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cmd/recording/source_files.h"
#include "cmd/relate/relation_view.h"
#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using comparators::NoVerdict;

core::ExitCode exit_code_of(const Ladder& ladder) {
  if (ladder.no_verdict != NoVerdict::kNone) return core::ExitCode::kNotComparable;
  return ladder.has_diverged() ? core::ExitCode::kDivergence : core::ExitCode::kReproducible;
}

Json of_rung(const ClimbedRung& rung) {
  return {{"rung", core::name_of(rung.rung)},
          {"is_same", rung.left == comparators::LeftAlike::kSame},
          {"is_near", rung.left == comparators::LeftAlike::kNear},
          {"judged", json_integer(rung.report.judged)},
          {"equal", json_integer(rung.report.equal)},
          {"worst_within", json_number(rung.report.worst)}};
}

/// The line of source that a finding is at, where its file is as it was.
std::string code_at(const comparators::Finding& finding, const core::DumpSource& off) {
  const auto field = std::ranges::find(finding.fields, "place", &comparators::Field::name);
  if (field == finding.fields.end()) return {};
  const auto* place = std::get_if<std::string>(&field->value);
  if (place == nullptr) return {};
  const std::size_t colon = place->rfind(':');
  if (colon == std::string::npos) return {};
  const auto line = core::parse_number<std::uint32_t>(place->substr(colon + 1));
  return source_line(off.manifest().sources, {place->substr(0, colon), line.value_or(0), {}});
}

Json document_of(const Ladder& ladder, const core::DumpSource& off) {
  const core::ExitCode code = exit_code_of(ladder);
  Json document{{"format", "repro-check-rungs"},
                {"version", "1.0"},
                {"headline", nullptr},
                {"verdict",
                 {{"status", relation_status(code, ladder.no_verdict)},
                  {"exit_code", static_cast<int>(code)},
                  {"reason", nullptr}}},
                {"rung", core::name_of(ladder.reached)},
                {"regions", ladder.regions},
                {"calls", json_integer(ladder.calls)},
                {"undecided", json_text(ladder.undecided)},
                {"rungs", Json::array()},
                {"climbed", Json::array()}};
  if (ladder.no_verdict != NoVerdict::kNone) {
    document["verdict"]["reason"] = json_of(ladder.no_verdict);
  }
  double worst = 0;
  for (const ClimbedRung& rung : ladder.climbed) {
    document["climbed"].push_back(of_rung(rung));
    document["rungs"].push_back(core::name_of(rung.rung));
    worst = std::max(worst, rung.report.worst);
  }
  document["worst_within"] = json_number(worst);
  document["findings"] = json_of(ladder.findings);
  document["notes"] = json_of(ladder.notes);
  document["draws"] = !ladder.notes.empty();
  if (ladder.has_diverged()) {
    const comparators::Finding& first = ladder.findings.front();
    if (!first.where.line.empty()) {
      document["place"] = {{"line", json_text(first.where.line)},
                           {"code", json_text(code_at(first, off))}};
    }
    document["source"] = {{"evidence", json_text(words_of(first).evidence)}};
  }
  document["shadow"] = shadow_json(ladder.shadow);
  document["next"] = Json::array();
  if (!ladder.next.empty()) document["next"].push_back(json_text(ladder.next));
  document["headline"] = json_text(relation_headline("rungs", document, ladder.no_verdict));
  return cleaned(std::move(document));
}

std::string body_of(Json document) {
  if (!document["findings"].empty()) document["first"] = document["findings"].front();
  for (Json& rung : document["climbed"])
    rung["is_within"] = rung["rung"] != core::name_of(core::CompileRung::kEager);
  Json fixed = document["findings"];
  for (const Json& note : document["notes"]) fixed.push_back(note);
  document["fixes"] = fixes_of(fixed);
  return text_of(said_lines(view_lines("rungs"), document), 2);
}

}  // namespace

core::ExitCode emit_ladder(const Ladder& ladder,
                           const core::DumpSource& off,
                           const ReportFlags& flags,
                           const GlobalOptions& globals) {
  const Json document = document_of(ladder, off);
  emit_relation(document, flags, globals, [&](bool /*all*/) { return body_of(document); });
  return exit_code_of(ladder);
}

}  // namespace repro_check::cmd
