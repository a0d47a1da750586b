// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/render/render.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

class Options;

/// The operators of one comparison as JSON Lines, however many: they go to a temporary file as they
/// are judged, and from there into the document once the header and the verdict are known. So a
/// document is whole or not there, and no more than a piece of it is held in memory.
class OpLines {
 public:
  /// @throws core::Error{kIo}, as the other members
  OpLines();

  /// For CompareOptions::observer. Borrows this.
  /// @param all  operators that are fine as well
  [[nodiscard]] comparators::OpObserver observer(bool all);

  /// The document, from header to verdict.
  void write(const Report& report, const RenderOptions& options, const TextSink& sink);

 private:
  void put(const std::string& line);

  TemporaryFile file_;
  std::ofstream out_;
  std::uint64_t not_fine_ = 0;
};

/// Where one `--report FORMAT=DEST` goes.
struct ReportDestination {
  const ReportFormat* format = nullptr;
  std::filesystem::path file;  ///< empty = stdout
  bool append = false;         ///< `+FILE`: behind what is there

  [[nodiscard]] bool to_stdout() const noexcept { return file.empty(); }
};

/// `did you mean --report html=FILE?`, of a format that is asked for where it does not belong;
/// empty for another word.
std::string report_meant_by(const std::string& format);

/// Sees that a report can be written there, and makes the directories above it. What is there may
/// be replaced if it is a report, of an earlier command, or empty.
/// @param append  nothing is replaced
/// @throws core::Error{kUsage}
void require_report_place(const std::filesystem::path& file, bool append = false);

/// Removes the reports that an earlier command has left in a directory, under the names that it
/// gives them; other files stay.
/// @throws core::Error{kIo}
void remove_reports(const std::filesystem::path& directory);

/// The nearest directory from here upwards that holds `.git`; the current one where none does.
std::filesystem::path repository_root();

/// --report, --format, --output, --all and --top, shared by the verbs that end in a report.
class ReportFlags : public OptionGroup {
 public:
  /// Divergent operators worth keeping in a report.
  [[nodiscard]] std::size_t max_items() const noexcept;

  /// Whether a report is asked for that shows every operator; after check_output().
  [[nodiscard]] bool wants_trail() const noexcept { return writes("html"); }

  /// Whether JSON Lines are asked for, which a comparison can write as it goes; after
  /// check_output().
  [[nodiscard]] bool wants_lines() const noexcept { return format_ == "jsonl" || writes("jsonl"); }

  /// Whether every operator is to be listed.
  [[nodiscard]] bool wants_all() const noexcept { return all_; }

  /// To be called before any work is done.
  /// @param spec  of a configuration: its files are written beside those of --report, which stands
  ///              in the place of one of the same format; their directories are made. Null = none
  /// @throws core::Error{kUsage} when a destination cannot be understood or written
  void check_output(const configs::ReportSpec* spec = nullptr);

  /// Further files, of the formats that are not the one on stdout: `report.json`, `report.txt`.
  void add_files(const std::vector<std::string>& formats,
                 const ReportStyle& style,
                 const std::filesystem::path& directory);

  /// Formats of --report, in order; after check_output().
  [[nodiscard]] std::vector<std::string_view> formats() const;

  /// What the renderer is told.
  /// @param fallback  format when neither --format nor --report says what goes to stdout
  [[nodiscard]] ReportStyle style(const GlobalOptions& globals, const std::string& fallback) const;

  /// Makes a document, in pieces.
  using Produce = std::function<void(
      std::string_view format, const DocumentOptions& options, const TextSink& sink)>;

  /// Writes every document: the files of --report first, then --output and stdout, so that stdout
  /// stays empty when a file could not be written. The other files are written then all the same.
  /// @param page_place  where a page opens, `#op-3`
  /// @throws core::Error{kIo} of the first that failed
  void emit(const ReportStyle& style,
            const Produce& produce,
            const std::string& page_place = {}) const;

  /// The same of reports.
  /// @param lines  every operator of the one report, for JSON Lines; null = what the reports list
  void emit(std::span<const Report> reports,
            const ReportStyle& style,
            OpLines* lines = nullptr) const;

  /// @throws core::Error{kUsage} where a format is asked for that is none of those
  /// @param what  `what is said of ranks`
  void require_formats(std::span<const std::string_view> known, std::string_view what) const;

 private:
  /// @throws core::Error{kIo} of the first that failed, when the others are written
  void write_files(const DocumentOptions& options,
                   const Produce& produce,
                   const std::string& page_place) const;
  [[nodiscard]] bool writes(std::string_view format) const noexcept;
  [[nodiscard]] bool stdout_is_taken() const;
  [[nodiscard]] DocumentOptions document_options(const RenderOptions& options) const;

  std::optional<std::string> format_ = word(&format_,
                                            "--format text|json|jsonl  Format of the report",
                                            {},
                                            {.mend = report_meant_by, .heading = "Report"});
  std::optional<std::string> output_ = value(&output_, "--output FILE", {.takes = Takes::kFile});
  std::vector<std::string> report_words_ =
      value(&report_words_, "--report FORMAT=DEST", {.takes = Takes::kReport});
  std::string source_root_ =
      value(&source_root_, "--source-root DIR", {.takes = Takes::kDirectory});
  std::string junit_dialect_ = word(&junit_dialect_, "--junit-dialect common|strict");
  bool all_ = flag(&all_, "--all");
  std::optional<std::size_t> top_ = value(&top_, "--top N");
  std::vector<ReportDestination> destinations_;
};

}  // namespace repro_check::cmd
