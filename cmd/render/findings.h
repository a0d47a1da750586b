// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/render/rules.h"
#include "comparators/report.h"

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
};

/// One thing that is not fine, as CI formats list it. Its texts are not escaped.
struct Finding {
  RuleId rule = RuleId::kOrigin;
  Subject subject = Subject::kOperator;
  std::size_t run = 0;                            ///< position in Report::runs, for kRun and kDump
  const comparators::OpDivergence* op = nullptr;  ///< for kOperator; borrowed from the report
  /// One line: `3 of 4096 elements, max 2 ULP, origin`.
  std::string message;
  std::string detail;  ///< further lines; may be empty
  /// Follows from another finding, so that it is no cause of its own.
  bool consequence = false;
};

/// Everything that is not fine, what concerns the whole first, then operators in trace order. Never
/// empty, with one that is no consequence at least, where exit_code_of() is not 0; else empty.
std::vector<Finding> findings_of(const comparators::Report& report);

/// Whether it says why nothing could be judged (exits 3, 4 and 5), and not that values differ.
bool is_trouble(RuleId rule) noexcept;

}  // namespace repro_check::cmd
