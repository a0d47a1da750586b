// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cmd/render/render.h"
#include "cmd/terminal/global_options.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "core/error.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {

struct RecordingResult;

/// How two dumps are opened.
struct OpenOptions {
  /// Take dumps that are partial, or unfinished recordings, for as far as they go.
  bool partial = false;
  /// Where dumps may be that one of the two refers to; each may refer to the other anyway.
  std::vector<std::filesystem::path> references = {};
  /// Told how much of a pack has been unpacked.
  store::PackProgress unpacking = nullptr;
  /// Both were named on the command line: a folder without a recording is a mistake there.
  bool named = false;
};

/// Opens and compares two dumps, and those of other processes inside of them: the report is that of
/// the process that decides the exit code, and has the statuses of the others. A dump that cannot
/// be read is a status of the report.
Report judge(const std::filesystem::path& baseline,
             const std::filesystem::path& candidate,
             const comparators::CompareOptions& options,
             const OpenOptions& opening = {});

/// The report that says only that a dump could not be read.
/// @return empty when `error` is not about a dump
std::optional<Report> unreadable_dump(const std::filesystem::path& dump, const core::Error& error);

/// The one that a command ends with: 5 before 3 before 1 before 4 before 0.
core::ExitCode worse(core::ExitCode left, core::ExitCode right);
core::ExitCode worst_exit(std::span<const Report> reports);

/// Puts the report that decides the exit code first, because the first line is what is read; the
/// others keep their order.
void put_worst_first(std::vector<Report>& reports);

/// Puts what another report of the same runs says beside what `report` does: statuses, what stands
/// in the way, and the time that it took.
void add_to(const Report& other, Report& report);
/// The statuses alone, those that are said already left out.
void name_statuses(std::span<const Status> statuses, Report& report);

/// How the reports of one command are written.
struct ReportStyle {
  std::string format = "text";  ///< text | json
  RenderOptions options;
};

/// Settings that depend on where the text goes and on the global options.
RenderOptions render_options(const GlobalOptions& globals, bool to_terminal);

/// One document: text reports one below the other, each naming the two dumps it is about when there
/// are several; a JSON object, or an array when there are several.
std::string render_reports(std::span<const Report> reports, const ReportStyle& style);

/// Prints the report that says only that a dump could not be read.
/// @throws `error` again when it is not about a dump
core::ExitCode report_unreadable(const std::filesystem::path& dump,
                                 const core::Error& error,
                                 const std::string& format,
                                 const GlobalOptions& globals);

/// The same of a command's one run that failed.
/// @param config  as the user typed it
core::ExitCode report_failed_run(const RecordingResult& failed,
                                 const std::string& config,
                                 const std::string& format,
                                 const GlobalOptions& globals);

using core::usage_error;

}  // namespace repro_check::cmd
