// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "comparators/report/finding.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

// The words of catalogue.json, which is built in. Texts are templates as say() takes them, over the
// fields and the place of what they are about. `{+call}` there stands for a part that several have.

/// All words of one finding.
struct FindingRow {
  std::string table;  ///< of the documentation: replicas, exchanges, data, ranks, recording, resume
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

/// By id, which is stable: in JSON, and in expectations of a gate.
struct Catalogue {
  std::map<std::string, FindingRow, std::less<>> findings;
  std::map<std::string, CauseRow, std::less<>> causes;
  std::map<std::string, std::string, std::less<>>
      phrases;  ///< what evidence and advice are made of
  /// In a verdict line, by phrases that say more of a cause than its own headline does.
  std::map<std::string, std::string, std::less<>> headlines;
};

const Catalogue& catalogue();
/// catalogue.json as it stands there.
std::string_view catalogue_text() noexcept;

const FindingRow& row_of(comparators::FindingId id);
/// Of kNone a row without words.
const CauseRow& row_of(comparators::CauseKind kind);
/// Empty where no phrase is called so.
std::string_view phrase_text(std::string_view key);
/// Empty where the phrase has no headline.
std::string_view phrase_headline(std::string_view key);

}  // namespace repro_check::cmd
