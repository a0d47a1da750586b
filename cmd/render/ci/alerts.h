// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/words/catalogue.h"
#include "comparators/report/report.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {

/// Why CI systems show something. Rows are never removed and ids never used again.
enum class RuleId {
  kOrigin,
  kInherited,
  kMismatch,
  kMissing,
  kControlFlow,
  kGenerator,
  kUninitialised,
  kNondeterministic,
  kGrowth,
  kUnrepeated,
  kObserver,
  kBorder,
  kExpected,
  kUnexpectedPass,
  kExpired,
  kStaleBaseline,
  kDamaged,
  kNotComparable,
  kRunFailed,
};

/// Its row of catalogue.json, which has them in this order.
const RuleRow& rule(RuleId id);

/// What a alert is about.
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
struct Alert {
  RuleId rule = RuleId::kOrigin;
  Subject subject = Subject::kOperator;
  std::size_t run = 0;  ///< position in Report::runs, for kRun and kDump
  /// For kOperator, and what kExpected names where that is known; borrowed from the report or gate.
  const OpDivergence* op = nullptr;
  /// Of RC2001 to RC2003; borrowed from the gate.
  const comparators::ExpectedOutcome* entry = nullptr;
  /// One line: `3 of 4096 elements, max 2 ULP, origin`.
  std::string message;
  std::string detail;  ///< further lines; may be empty
  /// Follows from another alert, so that it is no cause of its own.
  bool consequence = false;

  /// Expected, and in force: it fails nothing.
  [[nodiscard]] bool is_excused() const noexcept { return rule == RuleId::kExpected; }
};

/// Everything that is not fine, what concerns the whole first, then operators in trace order, then
/// what is excused. At least one that is neither a consequence nor excused where exit_code_of() is
/// not 0; only what is excused else.
/// @param gate  that the report is about; may be null
std::vector<Alert> alerts_of(const Report& report, const GateOutcome* gate);

/// `a race; until 2026-12-31, ann, PROJ-12`: why an entry is on the list. Not escaped.
std::string entry_text(const comparators::ExpectedOutcome& entry);

/// Whether it says why nothing could be judged (exits 3, 4 and 5), and not that values differ.
bool is_trouble(RuleId rule) noexcept;

/// A line of a file as CI systems name it; not escaped.
struct SourcePlace {
  std::string file;        ///< relative to the source root, with `/`
  std::uint32_t line = 1;  ///< 1-based
  bool is_call = false;    ///< whether it is where the call stands, not a stand-in for it
  bool is_file = true;     ///< false where it is a name for readers that drop what has no file
};

/// The innermost frame of `site` whose file lies below the source root and is none of an installed
/// package; where there is none, the first line of the configuration, else of the model's file.
/// @param site  may be null
SourcePlace source_place(const core::CallSite* site,
                         const Report& report,
                         const DocumentOptions& options);

/// Without that stand-in: empty where no frame is such a one.
std::optional<SourcePlace> source_place(const core::CallSite* site, const DocumentOptions& options);

/// The call that a alert is about; of differing inputs and weights, and of streams that part, the
/// first one that is not fine. Null where there is none.
const core::CallSite* site_of(const Alert& alert, const Report& report);

// Of SARIF.

/// A message, shortened.
Json sarif_message(std::string_view text);
Json sarif_location(const SourcePlace& place);
/// @param runs  a list
std::string sarif_document(Json runs, bool pretty);

/// One line of the GitHub runner. @param level  `error`, `warning`, `notice`
std::string github_annotation(std::string_view level,
                              const std::optional<SourcePlace>& place,
                              const std::string& title,
                              const std::string& message);

/// A report as the formats that CI systems read show it.
struct CiReport {
  const Report& report;
  const GateOutcome* gate = nullptr;  ///< of the first report: it is about the runs as a whole
  const DocumentOptions& options;
  /// What is checked, as one word: options.subject, else the stem of the model's file, else
  /// `model`; with the candidate's name where several reports share a document.
  std::string subject;
  std::string platform;  ///< as one word: options.platform, else the candidate's device
  std::vector<Alert> alerts;

  /// Where every format shows one of the alerts.
  [[nodiscard]] SourcePlace place_of(const Alert& alert) const {
    return source_place(site_of(alert, report), report, options);
  }
};

/// @param reports, options  borrowed
std::vector<CiReport> ci_reports(std::span<const Report> reports, const DocumentOptions& options);

}  // namespace repro_check::cmd
