// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/words/finding_words.h"
#include "comparators/report/finding.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

std::string words_of(const comparators::Phrase& phrase);
/// What is in words already, such as the message of an error.
comparators::Phrase as_said(std::string text);
/// What to do about a reason; empty where nothing is known.
std::string fix_of(const comparators::Phrase& reason);
/// A text each. Not escaped.
std::vector<std::string> texts_of(const comparators::Phrases& phrases);
/// One sentence of phrases in a row. Not escaped.
std::string sentence_of(const comparators::Phrases& phrases);

/// What is said of a cause. Not escaped.
FindingText words_of(const comparators::Cause& cause);

/// What of the evidence a verdict line has room for, of a loop and of operators that stand for
/// others; empty of any other cause.
std::string brief_of(const comparators::Cause& cause);

/// Whether nothing but its cause explains it: neither likely, nor unexplained.
bool is_proven(const comparators::Cause& cause);
/// `random numbers were not seeded`: why, in a verdict line. Empty of what has no such line.
std::string headline_of(const comparators::Cause& cause);

/// The notes of an operator, and what another one in its place differs in.
std::vector<std::string> notes_of(const comparators::OpDivergence& op);

/// The causes of all operators that are origins, as findings of a JSON report; that of the first
/// divergence first.
Json cause_findings(const comparators::Report& report);

/// `{key, fields, text}`: a reader takes the first two.
void describe(JsonWriter f, const comparators::Phrase& phrase);
void describe(JsonReader f, comparators::Phrase& phrase);

/// Phrases as the sentence that they are; null for none.
template <typename P>
struct Sentence {
  P& phrases;
};
template <typename P>
Sentence(P&) -> Sentence<P>;
#define SENTENCE(name) (#name, Sentence{it.name})

template <typename P>
void describe(JsonWriter f, const Sentence<P>& it) {
  if (!it.phrases.empty()) f.json() = json_text(sentence_of(it.phrases));
}
template <typename P>
void describe(JsonReader f, const Sentence<P>& it) {
  if (!f.json().is_null()) it.phrases = {as_said(f.json().template get<std::string>())};
}
/// A text each.
void describe_texts(JsonWriter f, const comparators::Phrases& phrases);
void describe_texts(JsonReader f, comparators::Phrases& phrases);

/// `{id, name, evidence, advice, phrases, remedy}`: a reader takes the id, the phrases, and the one
/// of the advice.
void describe_words(JsonWriter f, const comparators::Cause& cause);
void describe_words(JsonReader f, comparators::Cause& cause);

}  // namespace repro_check::cmd
