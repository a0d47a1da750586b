// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/say.h"
#include "comparators/report/finding.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

// The words of catalogue.json, which is built in. Texts are templates as say() takes them, over the
// fields and the place of what they are about. `{+call}` there stands for a part that several have.

/// All words of one finding.
struct FindingRow {
  std::string table;     ///< of the documentation: replicas, exchanges, data, ranks, recording,
                         ///< resume, loaders, weights
  std::string weight;    ///< proof, suspicion or note, as the documentation says it
  std::string title;     ///< a headline
  std::string evidence;  ///< what was seen
  std::string advice;    ///< what to do
  std::string when;      ///< when it is said, for the documentation
};

struct CauseRow {
  std::string title;
  std::string headline;  ///< in a verdict line; empty = the operator stands there
  std::string advice;    ///< empty where it depends on the operator
};

/// What CI systems show: a row of SARIF, of Code Quality and of JUnit.
struct RuleRow {
  std::string id;          ///< `RC1001`
  std::string name;        ///< `DivergenceOrigin`
  std::string junit_type;  ///< behind `repro_check.`
  std::string title;
  std::string description;  ///< at most 1024 characters
  std::string help;         ///< how to check it and what to do
};

/// By id, which is stable: in JSON, and in expectations of a gate.
struct Catalogue {
  std::map<std::string, FindingRow, std::less<>> findings;
  std::map<std::string, CauseRow, std::less<>> causes;
  std::vector<RuleRow> rules;  ///< by RuleId
  std::map<std::string, std::string, std::less<>>
      phrases;  ///< what evidence and advice are made of
  /// What to do about a reason why runs cannot pass or be compared, by its phrase.
  std::map<std::string, std::string, std::less<>> fixes;
  /// Of what commands show.
  std::map<std::string, std::vector<ViewLine>, std::less<>> views;
  /// In a verdict line, by phrases that say more of a cause than its own headline does.
  std::map<std::string, std::string, std::less<>> headlines;
};

const Catalogue& catalogue();
/// catalogue.json as it stands there.
std::string_view catalogue_text() noexcept;
std::string_view options_text() noexcept;
/// What an option of a verb does, as options.json says it: `every verb` has what several take.
/// Empty where it says nothing. @param option  its last name, `--out`
std::string option_text(std::string_view verb, std::string_view option);
/// Whole command lines, for the help of a verb.
std::vector<std::string> example_commands(std::string_view verb);
/// What core::ExitCode means, by number; under `several` what decides between them. An object.
const Json& exit_codes();

const FindingRow& row_of(comparators::FindingId id);
/// Of kNone a row without words.
const CauseRow& row_of(comparators::CauseKind kind);
/// @param key  there has to be one
const std::vector<ViewLine>& view_lines(std::string_view key);
/// What that view has under a label, which has to be there.
std::string_view view_text(std::string_view key, std::string_view label);
/// Empty where no phrase is called so.
std::string_view phrase_text(std::string_view key);
/// Empty where nothing is known.
std::string_view phrase_fix(std::string_view key);
/// Empty where the phrase has no headline.
std::string_view phrase_headline(std::string_view key);

}  // namespace repro_check::cmd
