// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/gate/history.h"
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
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw usage_error(file + ": no such file", "check the path");
  }
  return read_text_file(file);
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

constexpr std::array<std::string_view, 3> kHistoryFormats{"text", "json", "html"};

/// `repro-check report`: renders a JSON report again, or the history of a gate.
class ReportCommand final : public Command {
 public:
  ReportCommand()
      : Command({"report",
                 "Render a JSON report again, or the history of a gate",
                 {"repro-check report report.json",
                  std::string("repro-check report report.json --report markdown=summary.md "
                              "--report sarif=repro.sarif"),
                  "repro-check report --merge slice-*.jsonl    # of ranks or diff --format jsonl",
                  "repro-check report --history gate.jsonl --last 50",
                  "repro-check report --history gate.jsonl --report html=history.html",
                  "repro-check report --history gate.jsonl --gate bert --format json"}}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    if (file_.has_value() + history_.has_value() + !slices_.empty() != 1) {
      throw usage_error("give either a JSON report, --history or --merge",
                        "for example repro-check report report.json --report markdown=summary.md");
    }
    if (!history_ && (gate_ || last_)) {
      throw usage_error(gate_ ? "--gate is about a history" : "--last is about a history",
                        "give --history FILE in place of the report");
    }
    report_.check_output();
    if (!slices_.empty()) return merge(globals);
    return file_ ? render_again(globals) : show_history(globals);
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

  [[nodiscard]] core::ExitCode show_history(const GlobalOptions& globals) const {
    report_.require_formats(kHistoryFormats, "a history");
    const History history = parse_history(read_existing(*history_));
    for (const DamagedLine& line : history.damaged) {
      log_warning(fmt::format("{}, line {}: {}; it is left out",
                              core::printable(*history_),
                              line.number,
                              core::printable(line.why)));
    }
    TrendView view{*history_, trends_of(history, gate_), history.damaged};
    if (view.trends.empty()) {
      const std::string what = core::printable(*history_) + " holds no run of " +
                               (gate_ ? "gate " + core::printable(*gate_) : std::string("a gate"));
      const bool is_damaged = !history.damaged.empty() && history.entries.empty();
      throw core::Error(
          is_damaged ? core::ErrorKind::kDumpDamaged : core::ErrorKind::kNotComparable,
          what,
          "`repro-check gate --history FILE` adds one");
    }
    const ReportStyle style = report_.style(globals, "text");
    view.last = last_.value_or(view.last);
    report_.emit(style, [&](std::string_view format, const auto& options, const TextSink& sink) {
      if (format == "html") return sink(trend_html(view));
      sink((format == "json" ? trend_json : trend_text)(view, options));
    });
    return core::ExitCode::kReproducible;
  }

  std::optional<std::string> file_ = value(&file_, "file REPORT.json  JSON report");
  std::optional<std::string> history_ =
      value(&history_, "--history FILE.jsonl  The history that `gate --history` appends to");
  std::vector<std::string> slices_ = value(&slices_,
                                           "--merge FILE  What `ranks` or `diff` said of some "
                                           "ranks each, in JSON Lines: of all of them",
                                           {.words = true});
  std::optional<std::string> gate_ = value(&gate_, "--gate NAME  Of a history, this gate alone");
  std::optional<std::size_t> last_ =
      value(&last_, "--last N  Of a history, list so many runs of each gate (20)");
  ReportFlags report_ = group(&report_);
};

}  // namespace

std::unique_ptr<Command> report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace repro_check::cmd
