// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/causes.h"

#include <algorithm>

#include "cmd/render/say.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/fields.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

using comparators::Cause;
using comparators::CauseKind;
using comparators::Phrase;
using comparators::Phrases;

std::string_view weight_of(const Cause& cause) {
  if (cause.kind == CauseKind::kUnexplained) return "note";
  const bool is_likely = std::ranges::any_of(cause.evidence, [](const Phrase& phrase) {
    return phrase.key.starts_with(comparators::kLikely);
  });
  return is_likely ? "suspicion" : "proof";
}

/// What stands between a text and the one behind it.
std::string_view joint(std::string_view before, std::string_view behind) {
  if (before.empty() || behind.starts_with(' ') || behind.starts_with(',') ||
      behind.starts_with(':')) {
    return "";
  }
  for (const std::string_view open : {":", " and", " that"}) {
    if (before.ends_with(open)) return " ";
  }
  return "; ";
}

}  // namespace

std::string words_of(const Phrase& phrase) {
  return say_unescaped(phrase_text(phrase.key), fields_json(phrase.fields));
}

Phrase as_said(std::string text) { return Phrase("text", {{"text", std::move(text)}}); }

std::string fix_of(const Phrase& reason) {
  return say_unescaped(phrase_fix(reason.key), fields_json(reason.fields));
}

std::vector<std::string> texts_of(const Phrases& phrases) {
  std::vector<std::string> texts;
  for (const Phrase& phrase : phrases) texts.push_back(words_of(phrase));
  return texts;
}

std::string sentence_of(const Phrases& phrases) {
  std::string text;
  for (const Phrase& phrase : phrases) {
    const std::string more = words_of(phrase);
    text += std::string(joint(text, more)) + more;
  }
  return text;
}

FindingText words_of(const Cause& cause) {
  return {row_of(cause.kind).title,
          sentence_of(cause.evidence),
          cause.advice ? words_of(*cause.advice) : row_of(cause.kind).advice};
}

bool is_proven(const Cause& cause) { return weight_of(cause) == "proof"; }

std::string headline_of(const Cause& cause) {
  for (const Phrase& phrase : cause.evidence) {
    std::string text = say_unescaped(phrase_headline(phrase.key), fields_json(phrase.fields));
    if (!text.empty()) return text;
  }
  return row_of(cause.kind).headline;
}

std::string brief_of(const Cause& cause) {
  const bool has_brief = cause.kind == CauseKind::kDecomposed || cause.kind == CauseKind::kLoop;
  return has_brief && !cause.evidence.empty() ? words_of(cause.evidence.front()) : std::string();
}

std::vector<std::string> notes_of(const comparators::OpDivergence& op) {
  std::vector<std::string> notes = op.notes;
  if (!op.replaced.empty()) notes.push_back("operator differs: " + sentence_of(op.replaced));
  return notes;
}

namespace {

Json place_json(const comparators::OpDivergence& op) {
  const core::OpRecord& record = comparators::shown_record(op);
  Json where = Json::object();
  if (record.rank > 0) where["rank"] = record.rank;
  where["step"] = record.step;
  where["phase"] = core::name_of(record.phase);
  where["op"] = json_integer(comparators::shown_index(op));
  if (!op.baseline_index) where["run"] = "candidate";
  if (!op.candidate_index) where["run"] = "baseline";
  where["operator"] = json_text(comparators::operator_text(record));
  if (const auto module = comparators::module_of(record); !module.empty()) {
    where["module"] = json_text(module);
  }
  if (const auto line = core::line_text(record.site.get()); !line.empty()) {
    where["line"] = json_text(line);
  }
  if (!op.outputs.empty()) {
    const auto& output = op.outputs.front();
    where["tensor"] =
        json_text(output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot);
  }
  return where;
}

/// What an earlier phrase says stays.
Json fields_of(const Cause& cause) {
  Json fields = Json::object();
  for (const Phrase& phrase : cause.evidence) {
    const Json own = fields_json(phrase.fields);
    for (const auto& [name, value] : own.items()) {
      if (!fields.contains(name)) fields[name] = value;
    }
  }
  return fields;
}

Json finding_json(const comparators::OpDivergence& op) {
  const FindingText text = words_of(op.cause);
  return {{"id", comparators::cause_id(op.cause.kind)},
          {"weight", weight_of(op.cause)},
          {"where", place_json(op)},
          {"fields", fields_of(op.cause)},
          {"title", text.title},
          {"text", json_text(text.whole())},
          {"fix", json_text(text.fix)}};
}

}  // namespace

Json cause_findings(const comparators::Report& report) {
  Json findings = Json::array();
  const auto add = [&](const comparators::OpDivergence& op) {
    const bool is_own = op.relation != comparators::Relation::kPropagated && op.producers.empty();
    if (is_own && op.cause.kind != CauseKind::kNone) findings.push_back(finding_json(op));
  };
  if (report.first_divergence) add(*report.first_divergence);
  for (const comparators::OpDivergence& op : report.divergences) add(op);
  return findings;
}

void describe(JsonWriter f, const Phrase& phrase) {
  f("key", phrase.key);
  f.json()["fields"] = fields_json(phrase.fields);
  f("text", words_of(phrase));
}

void describe(JsonReader f, Phrase& phrase) {
  f("key", phrase.key);
  if (phrase_text(phrase.key).empty()) f.refuse("nothing is called \"" + phrase.key + "\"");
  phrase.fields = fields_in(f.json().at("fields"));
}

void describe_texts(JsonWriter f, const Phrases& phrases) { describe(f, texts_of(phrases)); }

void describe_texts(JsonReader f, Phrases& phrases) {
  for (const Json& text : f.json()) phrases.push_back(as_said(text.get<std::string>()));
}

void describe_words(JsonWriter f, const Cause& cause) {
  const FindingText text = words_of(cause);
  f.at("id").word(cause.kind, comparators::kLastCause, comparators::cause_id);
  f("name", text.title)("evidence", text.evidence)("advice", text.fix)("phrases", cause.evidence);
  f.json()["remedy"] = cause.advice ? json_of(*cause.advice) : Json(nullptr);
}

void describe_words(JsonReader f, Cause& cause) {
  f.at("id").word(cause.kind, comparators::kLastCause, comparators::cause_id);
  f("phrases", cause.evidence)("remedy", cause.advice);
}

}  // namespace repro_check::cmd
