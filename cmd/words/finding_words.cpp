// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/finding_words.h"

#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "cmd/render/json/say.h"
#include "cmd/words/catalogue.h"

namespace repro_check::cmd {

using comparators::FieldValue;
using comparators::Finding;
using comparators::FindingId;
using comparators::FindingPlace;
using comparators::RankList;

DESCRIBE(FindingPlace,
         SOMETIMES(rank) SOMETIMES(step) SOMETIMES(op) SOMETIMES(line) SOMETIMES(tensor))

namespace {

Json value_json(const FieldValue& value) {
  return std::visit([](const auto& each) { return json_of(each); }, value);
}

FieldValue value_in(const Json& json) {
  const JsonReader f(json);
  const auto read = [&](auto value) -> FieldValue {
    describe(f, value);
    return value;
  };
  if (json.is_boolean()) return read(false);
  if (json.is_number_integer()) return read(std::int64_t{0});
  if (json.is_number()) return read(0.0);
  if (json.is_string()) return read(std::string());
  const bool are_names = json.is_array() && !json.empty() && json.front().is_string();
  return are_names ? read(std::vector<std::string>()) : read(RankList());
}

/// The fields and the place, side by side.
Json model_of(const Finding& finding) {
  Json model = json_of(finding.where);
  if (model.is_null()) model = Json::object();
  for (const comparators::Field& field : finding.fields) {
    model[field.name] = value_json(field.value);
  }
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
  std::vector<std::string> texts = report.warnings;
  for (const Finding& finding : report.findings) texts.push_back(words_of(finding).whole());
  return texts;
}

void describe(JsonWriter f, const Finding& finding) {
  const FindingText text = words_of(finding);
  f.json()["id"] = row_of(finding.id).name;
  f("weight", finding.weight);
  Json& where = f.json()["where"] = json_of(finding.where);
  if (where.is_null()) where = Json::object();
  Json& fields = f.json()["fields"] = Json::object();
  for (const comparators::Field& field : finding.fields) {
    fields[field.name] = value_json(field.value);
  }
  f("title", text.title)("text", text.whole())("fix", text.fix);
}

void describe(JsonReader f, Finding& finding) {
  f.at("id").word(
      finding.id, comparators::kLastFinding, [](FindingId id) { return row_of(id).name; });
  f("weight", finding.weight)("where", finding.where);
  for (const auto& [name, value] : f.json().at("fields").items()) {
    finding.fields.push_back({name, value_in(value)});
  }
}

}  // namespace repro_check::cmd
