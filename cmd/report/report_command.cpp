// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/ranks/rank_lines.h"
#include "cmd/ranks/ranks_view.h"
#include "cmd/render/json/report_json.h"
#include "cmd/reports/rank_pairs.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/reports/report_flags.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

std::string read_existing(const std::string& file) {
  namespace fs = std::filesystem;
  expect_path(file);
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return read_text_file(file);
  const fs::path inside = fs::path(file) / "report.json";
  throw usage_error(
      core::printable(file) + ": is not a file; report takes a JSON report",
      fs::is_regular_file(inside, ignored)
          ? "did you mean " + core::printable(inside.string()) + "?"
          : "write one with --report json=report.json, an option of run, gate and diff");
}

/// Why a JSON report is not enough for a format; empty where it is.
std::string_view what_is_missing(std::string_view format) {
  if (format == "junit") return "how many operators of each module were compared, and their times";
  if (format == "html") return "the operators that do not differ, which the page shows";
  return {};
}

void require_renderable(const std::vector<std::string_view>& formats) {
  for (const std::string_view format : formats) {
    const std::string_view missing = what_is_missing(format);
    if (missing.empty()) continue;
    throw usage_error(
        fmt::format("--report {}: a JSON report does not hold {}", format, missing),
        fmt::format("ask for it where the report is made: `diff`, `run` or `gate --report "
                    "{}=FILE`",
                    format));
  }
}

/// `repro-check report`: renders a JSON report again, or puts slices of one together.
class ReportCommand final : public Command {
 public:
  ReportCommand() : Command({"report", "Print a saved JSON report, also in another format"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    if (file_.has_value() == !slices_.empty()) {
      throw usage_error("give either a JSON report or --merge",
                        "for example repro-check report report.json --report markdown=summary.md");
    }
    report_.check_output();
    return file_ ? render_again(globals) : merge(globals);
  }

 private:
  [[nodiscard]] core::ExitCode render_again(const GlobalOptions& globals) const {
    require_renderable(report_.formats());
    const ReadReports read = read_reports(read_existing(*file_), *file_);
    ReportStyle style = report_.style(globals, "text");
    if (style.options.verbosity > 0) {
      log_info("a JSON report does not hold what -v adds");
      style.options.verbosity = 0;
    }
    style.options.gate = read.gate ? &*read.gate : nullptr;
    style.options.hdf5_version = read.hdf5_version;
    report_.emit(read.reports, style);
    return worst_exit(read.reports);
  }

  [[nodiscard]] core::ExitCode merge(const GlobalOptions& globals) const {
    const std::vector<RankSlice> slices = read_slices(slices_);
    const ReportStyle style = report_.style(globals, "text");
    if (slices.front().verb == "ranks") {
      return emit_ranks(reads_of(slices), slices.front().dumps, report_, globals);
    }
    require_renderable(report_.formats());
    const std::vector<Report> reports = reports_of(slices);
    report_.emit(reports, style);
    return worst_exit(reports);
  }

  std::optional<std::string> file_ = value(&file_, "file REPORT.json", {.takes = Takes::kFile});
  std::vector<std::string> slices_ =
      value(&slices_, "--merge FILE", {.takes = Takes::kFile, .words = true});
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace repro_check::cmd
