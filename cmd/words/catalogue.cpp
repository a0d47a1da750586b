// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/catalogue.h"

#include <algorithm>

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

DESCRIBE(FindingRow,
         MEMBER(table) MEMBER(weight) MEMBER(title) MEMBER(evidence) MEMBER(advice) MEMBER(when))
DESCRIBE(RuleRow,
         MEMBER(id) MEMBER(name) MEMBER(junit_type) MEMBER(title) MEMBER(description) MEMBER(help))

/// `[label, text]`, or `[label, text, each]`.
void describe(JsonReader f, ViewLine& line) {
  std::vector<std::string> texts;
  describe(f, texts);
  line = {texts.at(0), texts.at(1), texts.size() > 2 ? texts[2] : ""};
}
DESCRIBE(CauseRow, MEMBER(title) MEMBER(headline) MEMBER(advice))

namespace {

template <typename Row>
std::map<std::string, Row, std::less<>> rows_in(const Json& json) {
  std::map<std::string, Row, std::less<>> rows;
  for (const auto& [id, row] : json.items()) describe(JsonReader(row, id), rows[id]);
  return rows;
}

/// Puts the parts into every text of a value.
void put_parts(const Json& parts, Json& value) {
  if (value.is_structured()) {
    for (Json& item : value) put_parts(parts, item);
    return;
  }
  auto& text = value.get_ref<std::string&>();
  for (const auto& [name, part] : parts.items()) {
    const std::string mark = "{+" + name + "}";
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, mark.size(), part.get<std::string>());
    }
  }
}

using Texts = std::map<std::string, std::string, std::less<>>;

std::string_view text_in(const Texts& texts, std::string_view key) {
  const auto found = texts.find(key);
  return found == texts.end() ? std::string_view() : found->second;
}

Catalogue read_catalogue() {
  Json json = Json::parse(catalogue_text());
  const Json parts = json.at("parts");
  put_parts(parts, json);
  std::vector<RuleRow> rules;
  describe(JsonReader(json.at("rules")), rules);
  return {rows_in<FindingRow>(json.at("findings")),
          rows_in<CauseRow>(json.at("causes")),
          std::move(rules),
          rows_in<std::string>(json.at("phrases")),
          rows_in<std::string>(json.at("fixes")),
          rows_in<std::vector<ViewLine>>(json.at("views")),
          rows_in<std::string>(json.at("headlines"))};
}

}  // namespace

const Catalogue& catalogue() {
  static const Catalogue whole = read_catalogue();
  return whole;
}

namespace {

/// What options.json says of a verb.
const Json& texts_of_verb(std::string_view verb) {
  static const Json texts = Json::parse(options_text());  // alone: every start needs it
  static const Json nothing = Json::object();
  const auto found = texts.find(std::string(verb));
  return found == texts.end() ? nothing : *found;
}

}  // namespace

const Json& exit_codes() { return texts_of_verb("exit codes"); }

std::string option_text(std::string_view verb, std::string_view option) {
  return texts_of_verb(verb).value(std::string(option), "");
}

std::vector<std::string> example_commands(std::string_view verb) {
  return texts_of_verb(verb).value("examples", std::vector<std::string>());
}

const FindingRow& row_of(comparators::FindingId id) {
  return catalogue().findings.at(std::string(comparators::finding_id(id)));
}

const CauseRow& row_of(comparators::CauseKind kind) {
  static const CauseRow nothing;
  return kind == comparators::CauseKind::kNone
             ? nothing
             : catalogue().causes.at(std::string(comparators::cause_id(kind)));
}

const std::vector<ViewLine>& view_lines(std::string_view key) {
  return catalogue().views.find(key)->second;
}

std::string_view view_text(std::string_view key, std::string_view label) {
  return std::ranges::find(view_lines(key), label, &ViewLine::label)->text;
}

std::string_view phrase_text(std::string_view key) { return text_in(catalogue().phrases, key); }

std::string_view phrase_fix(std::string_view key) { return text_in(catalogue().fixes, key); }

std::string_view phrase_headline(std::string_view key) {
  return text_in(catalogue().headlines, key);
}

}  // namespace repro_check::cmd
