// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/render/json_form.h"
#include "comparators/report/finding.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

template <>
inline constexpr std::string_view kWords<comparators::Finding::Weight> = "proof|suspicion|note";

/// What a reader is told of a finding, by its row of the catalogue. Not escaped.
struct FindingText {
  std::string title;     ///< `gradients not reduced`
  std::string evidence;  ///< `no gradient is the same on all ranks when the optimizer reads it`
  std::string fix;       ///< what to do

  /// `TITLE: EVIDENCE`
  [[nodiscard]] std::string whole() const;
};
FindingText words_of(const comparators::Finding& finding);

/// The warnings of a report, and what its findings say. Not escaped.
std::vector<std::string> warnings_of(const comparators::Report& report);
/// Those of the warnings that say how many outputs hold NaN or infinity, and where that began:
/// every verdict carries them, in every format. Not escaped.
std::vector<std::string> non_finite_of(const comparators::Report& report);

/// What to do about findings, as describe() has them, each once.
Json fixes_of(const Json& findings);

/// `{id, weight, where, fields, title, text, fix}`: a reader takes the first four.
void describe(JsonWriter f, const comparators::Finding& finding);
void describe(JsonReader f, comparators::Finding& finding);

}  // namespace repro_check::cmd
