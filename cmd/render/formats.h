// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

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
using RenderDocument = std::string (*)(std::span<const comparators::Report> reports,
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
bool is_report(std::string_view head) noexcept;

/// Text reports one below the other, each naming its two dumps when there are several.
std::string render_text_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options);
/// A JSON object, or an array when there are several reports.
std::string render_json_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options);
/// As render_html().
std::string render_html_document(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options);
/// JSON Lines: for each report a header, the operators that are not fine in trace order, warnings,
/// and a verdict as the last line.
std::string render_jsonl(std::span<const comparators::Report> reports,
                         const DocumentOptions& options);
/// GitHub Flavored Markdown of at most 60 KB.
std::string render_markdown(std::span<const comparators::Report> reports,
                            const DocumentOptions& options);
/// JUnit XML. A failure or error where exit_code_of() is not 0, else none and a passing case.
std::string render_junit(std::span<const comparators::Report> reports,
                         const DocumentOptions& options);
/// SARIF 2.1.0, a run a report.
std::string render_sarif(std::span<const comparators::Report> reports,
                         const DocumentOptions& options);
/// Workflow commands of the GitHub runner, one a line.
std::string render_github(std::span<const comparators::Report> reports,
                          const DocumentOptions& options);
/// The Code Climate issues that GitLab reads; an empty array on a pass.
std::string render_codequality(std::span<const comparators::Report> reports,
                               const DocumentOptions& options);

}  // namespace repro_check::cmd
