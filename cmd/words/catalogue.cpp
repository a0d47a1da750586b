// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/catalogue.h"

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

DESCRIBE(FindingRow,
         MEMBER(table) MEMBER(weight) MEMBER(title) MEMBER(evidence) MEMBER(advice) MEMBER(when))
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
  return {rows_in<FindingRow>(json.at("findings")),
          rows_in<CauseRow>(json.at("causes")),
          rows_in<std::string>(json.at("phrases")),
          rows_in<std::string>(json.at("headlines"))};
}

}  // namespace

const Catalogue& catalogue() {
  static const Catalogue kCatalogue = read_catalogue();
  return kCatalogue;
}

const FindingRow& row_of(comparators::FindingId id) {
  return catalogue().findings.at(std::string(comparators::finding_id(id)));
}

const CauseRow& row_of(comparators::CauseKind kind) {
  static const CauseRow kNothing;
  return kind == comparators::CauseKind::kNone
             ? kNothing
             : catalogue().causes.at(std::string(comparators::cause_id(kind)));
}

std::string_view phrase_text(std::string_view key) { return text_in(catalogue().phrases, key); }

std::string_view phrase_headline(std::string_view key) {
  return text_in(catalogue().headlines, key);
}

}  // namespace repro_check::cmd
