// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/finding_words.h"

#include <algorithm>
#include <iterator>

#include "cmd/render/say.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/fields.h"

namespace repro_check::cmd {

using comparators::Finding;
using comparators::FindingPlace;

DESCRIBE(FindingPlace,
         SOMETIMES(rank) SOMETIMES(step) SOMETIMES(op) SOMETIMES(line) SOMETIMES(tensor))

namespace {

/// The fields and the place, side by side.
Json model_of(const Finding& finding) {
  Json model = json_of(finding.where);
  if (model.is_null()) model = Json::object();
  model.update(fields_json(finding.fields));
  return model;
}

}  // namespace

std::string FindingText::whole() const {
  return evidence.empty() ? title : title + ": " + evidence;
}

FindingText words_of(const Finding& finding) {
  const FindingRow& row = row_of(finding.id);
  const Json model = model_of(finding);
  return {say_unescaped(row.title, model),
          say_unescaped(row.evidence, model),
          say_unescaped(row.advice, model)};
}

std::vector<std::string> warnings_of(const comparators::Report& report) {
  std::vector<std::string> texts = texts_of(report.warnings);
  for (const Finding& finding : report.findings) texts.push_back(words_of(finding).whole());
  return texts;
}

std::vector<std::string> non_finite_of(const comparators::Report& report) {
  comparators::Phrases said;
  std::ranges::copy_if(report.warnings, std::back_inserter(said), [](const auto& warning) {
    return warning.key == "outputs-not-finite" || warning.key == "not-finite-uncounted";
  });
  return texts_of(said);
}

void describe(JsonWriter f, const Finding& finding) {
  const FindingText text = words_of(finding);
  f.json()["id"] = comparators::finding_id(finding.id);
  f("weight", finding.weight);
  Json& where = f.json()["where"] = json_of(finding.where);
  if (where.is_null()) where = Json::object();
  f.json()["fields"] = fields_json(finding.fields);
  f("title", text.title)("text", text.whole())("fix", text.fix);
}

void describe(JsonReader f, Finding& finding) {
  f.at("id").word(finding.id, comparators::kLastFinding, comparators::finding_id);
  f("weight", finding.weight)("where", finding.where);
  finding.fields = fields_in(f.json().at("fields"));
}

Json fixes_of(const Json& findings) {
  Json fixes = Json::array();
  for (const Json& finding : findings) {
    const Json& fix = finding["fix"];
    if (std::ranges::count(fixes, fix) == 0) fixes.push_back(fix);
  }
  return fixes;
}

}  // namespace repro_check::cmd
