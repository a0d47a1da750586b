// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/baseline.h"
#include "comparators/judge/expectations.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

// What every verb and every renderer speaks of.
using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::RunSummary;
using comparators::Status;

/// How runs that agree with each other stand to what was accepted.
enum class BaselineState {
  kNotAsked,  ///< the runs disagree, or there is nothing whole to ask about
  kSame,
  kRefresh,  ///< something else changed, and the results did not
  kStale,
  kMissing,
  kDiffers,
  kDamaged,
  kNoKey,  ///< the recordings hold no numeric probe
};

/// What a gate found beside its report: everything a renderer needs.
struct GateOutcome {
  std::string gate;
  std::string config;              ///< as the user typed it; may be empty
  std::vector<std::string> flags;  ///< that he gave, and every verb of the gate takes
  std::uint64_t runs = 0;
  bool runs_agree = false;
  BaselineState baseline = BaselineState::kNotAsked;
  std::string key;   ///< of the platform, in hexadecimal; empty where there is none
  std::string file;  ///< the baseline that was asked, or that is missing
  std::vector<baselines::Change> changes;  ///< what makes it stale
  std::string summary;                     ///< `3 of 491 operators change, first ...`
  std::string nearest;                     ///< the baseline of another platform that is most alike
  std::vector<baselines::Change> nearest_changes;
  std::string pending;               ///< the file that `accept` takes; empty = none was written
  std::string refusal;               ///< why `accept` will not take it; empty = it will
  std::vector<std::string> orphans;  ///< baselines that belong to no configuration
  std::vector<comparators::ExpectedOutcome> expected;
  std::vector<std::string> notes;
  std::string attempt;  ///< of the CI's job, where it says so
};

/// `repro-check gate VERB -c CONFIG`, with the user's own options, to be typed.
std::string gate_command(std::string_view verb,
                         const std::string& config,
                         const std::vector<std::string>& flags);

/// What a recorder left on stderr, for a run that failed.
struct RunLog {
  std::string path;        ///< empty = there is none
  std::string last_words;  ///< as it stands in the file: hostile
};

/// Divergent operators listed by default.
inline constexpr std::size_t kDefaultTop = 10;
/// Of a terminal: a report of the default verbosity shows as many items of its lists as fit.
inline constexpr std::size_t kDefaultReportLines = 24;

struct RenderOptions {
  int verbosity = 0;   ///< -1 = verdict line only, 0, 1 = every metric, 2 as 1
  bool color = false;  ///< ANSI colours; decide with use_color()
  /// That text is wrapped to, but for the first line and the `next:` lines; 0 = a line a paragraph.
  /// Decide with text_columns().
  std::size_t columns = 0;
  /// Host of the files that places are linked to (OSC 8); empty = no links. See use_links().
  std::string link_host;
  bool all = false;                  ///< list every divergent operator the report holds
  std::size_t top = kDefaultTop;     ///< further divergent operators listed, unless `all`
  bool name_pair = false;            ///< say below the verdict which two dumps it is about
  bool pretty_json = false;          ///< two-space indent: for a terminal
  std::string config_path;           ///< as the user typed it; empty = not known
  std::vector<std::string> command;  ///< of a program that was given in its place
  /// The user's own options that changed what the configuration says, to be given again.
  std::vector<std::string> config_flags;
  std::string output_directory;       ///< that the user gave to `run`; empty = the configuration's
  std::string hdf5_version;           ///< `1.10.8`; empty = not known
  const GateOutcome* gate = nullptr;  ///< of the gate the report is about; may be null
  std::vector<RunLog> logs;           ///< by position in Report::runs; may be shorter
};

/// Warnings that a text or a page lists. JSON holds all of them.
inline constexpr std::size_t kMostWarnings = 1000;

/// The verdict line: plain, one physical line whatever its length, names escaped, no newline.
std::string headline(const Report& report);

/// The text report, ending in a newline. Not a stable interface; the JSON is.
std::string render_text(const Report& report, const RenderOptions& options);

/// The JSON report (docs/report.schema.json), ending in a newline. Of `options` it heeds
/// `pretty_json`, `hdf5_version` and `gate` alone, so that no verbosity changes a byte.
std::string render_json(const Report& report, const RenderOptions& options);

/// The HTML report: one page that loads nothing from anywhere, for a browser without a network. It
/// shows every operator of a report that has a trail, else its first ones as a list. Several
/// reports share a page, the first one in front. Not a stable interface; the JSON is. Heeds no
/// verbosity and no colour.
/// @param reports  one at least
/// @throws core::Error{kInternal} when the data cannot be packed
std::string render_html(std::span<const Report> reports, const RenderOptions& options);

/// At most two commands, quoted for a POSIX shell, that answer the question the verdict leaves
/// open. None for a pass.
std::vector<std::string> next_commands(const Report& report, const RenderOptions& options);

/// What a document is told beside what the text report is.
struct DocumentOptions : RenderOptions {
  /// What is checked, as CI systems are to call it: `bert`; empty = as the model's file is named.
  std::string subject;
  /// Absolute directory that files are named from in formats that CI systems read.
  std::string source_root;
  /// Named where an operator has no source line: the configuration, absolute; empty = there is
  /// none.
  std::string fallback_file;
  bool strict_junit = false;  ///< JUnit without `file` and `line`
  /// On what it ran, as CI systems are to call it: a short platform key; empty = by the device.
  std::string platform = {};
};

/// The reports of one command as one document. It is made in one piece, so that nothing is written
/// before it is whole.
using RenderDocument = std::string (*)(std::span<const Report> reports,
                                       const DocumentOptions& options);

/// A format that `--report` knows. A new one is a function of this kind and a row of the table in
/// formats.cpp.
struct ReportFormat {
  std::string_view name;
  RenderDocument render = nullptr;
  bool appendable = false;  ///< two documents in one file, one behind the other, are a document
  /// How all its documents begin, and what stands near their begin: they are known by that. Those
  /// of text begin with a verdict.
  std::string_view begins = {};
  std::string_view holds = {};
};

/// All of them, in the order in which the help lists them.
std::span<const ReportFormat> report_formats() noexcept;
/// Null for a name nobody knows.
const ReportFormat* find_format(std::string_view name) noexcept;

/// How much of a document is_report() has to see.
inline constexpr std::size_t kReportHead = std::size_t{1} << 12U;
/// Whether a file that begins so holds a report of ours, in whatever format.
bool is_report(std::string_view head);

/// `DIVERGED`, `NOT COMPARABLE`: how a verdict line begins.
std::string verdict_word(Status status);

/// JSON Lines: for each report a header, the operators that are not fine in trace order, warnings,
/// and a verdict as the last line.
std::string render_jsonl(std::span<const Report> reports, const DocumentOptions& options);
/// GitHub Flavored Markdown of at most 60 KB.
std::string render_markdown(std::span<const Report> reports, const DocumentOptions& options);
/// JUnit XML. A failure or error where exit_code_of() is not 0, else none and a passing case.
std::string render_junit(std::span<const Report> reports, const DocumentOptions& options);
/// SARIF 2.1.0, a run a report.
std::string render_sarif(std::span<const Report> reports, const DocumentOptions& options);
/// Workflow commands of the GitHub runner, one a line.
std::string render_github(std::span<const Report> reports, const DocumentOptions& options);
/// The Code Climate issues that GitLab reads; an empty array on a pass.
std::string render_codequality(std::span<const Report> reports, const DocumentOptions& options);

}  // namespace repro_check::cmd
