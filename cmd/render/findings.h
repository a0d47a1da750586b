// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/render/gate_outcome.h"
#include "cmd/render/rules.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// What a finding is about.
enum class Subject {
  kInputs,
  kWeights,
  kCoverage,
  kAlignment,
  kGrowth,
  kRepeat,
  kRun,
  kDump,
  kOperator,
  kBaseline,  ///< of a gate
  kExpected,  ///< an entry of its list of expected divergences, where no operator stands for it
};

/// One thing that is not fine, as CI formats list it. Its texts are not escaped.
struct Finding {
  RuleId rule = RuleId::kOrigin;
  Subject subject = Subject::kOperator;
  std::size_t run = 0;  ///< position in Report::runs, for kRun and kDump
  /// For kOperator, and what kExpected names where that is known; borrowed from the report or gate.
  const comparators::OpDivergence* op = nullptr;
  /// Of RC2001 to RC2003; borrowed from the gate.
  const comparators::ExpectedOutcome* entry = nullptr;
  /// One line: `3 of 4096 elements, max 2 ULP, origin`.
  std::string message;
  std::string detail;  ///< further lines; may be empty
  /// Follows from another finding, so that it is no cause of its own.
  bool consequence = false;

  /// Expected, and in force: it fails nothing.
  [[nodiscard]] bool is_excused() const noexcept { return rule == RuleId::kExpected; }
};

/// Everything that is not fine, what concerns the whole first, then operators in trace order, then
/// what is excused. At least one that is neither a consequence nor excused where exit_code_of() is
/// not 0; only what is excused else.
/// @param gate  that the report is about; may be null
std::vector<Finding> findings_of(const comparators::Report& report, const GateOutcome* gate);

/// `a race; until 2026-12-31, ann, PROJ-12`: why an entry is on the list. Not escaped.
std::string entry_text(const comparators::ExpectedOutcome& entry);

/// Whether it says why nothing could be judged (exits 3, 4 and 5), and not that values differ.
bool is_trouble(RuleId rule) noexcept;

}  // namespace repro_check::cmd
