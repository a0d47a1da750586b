// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/command.h"
#include "cmd/report_destinations.h"
#include "cmd/verdict.h"
#include "comparators/report.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// --report, --format, --output, --all and --top, shared by the verbs that end in a report.
class ReportFlags {
 public:
  void define(CLI::App& app);

  /// Divergent operators worth keeping in a report.
  [[nodiscard]] std::size_t max_items() const noexcept;

  /// Whether a report is asked for that shows every operator; after check_output().
  [[nodiscard]] bool wants_trail() const noexcept;

  /// To be called before any work is done.
  /// @throws core::Error{kUsage} when a destination cannot be understood or written
  void check_output();

  /// Formats of --report, in order; after check_output().
  [[nodiscard]] std::vector<std::string_view> formats() const;

  /// What the renderer is told.
  /// @param fallback  format when neither --format nor --report says what goes to stdout
  [[nodiscard]] ReportStyle style(const GlobalOptions& globals, const std::string& fallback) const;

  /// Writes every report: the files of --report first, then --output and stdout, so that stdout
  /// stays empty when a file could not be written. The other files are written then all the same.
  /// @throws core::Error{kIo} of the first that failed
  void emit(std::span<const comparators::Report> reports, const ReportStyle& style) const;

  /// Writes a document that is no report, to --output or stdout.
  /// @throws core::Error{kIo}
  void write(std::string_view document) const;

 private:
  [[nodiscard]] bool stdout_is_taken() const;
  [[nodiscard]] DocumentOptions document_options(const RenderOptions& options) const;

  std::optional<std::string> format_;
  std::optional<std::string> output_;
  std::vector<std::string> report_words_;
  std::vector<ReportDestination> destinations_;
  std::string source_root_;
  std::string junit_dialect_;
  bool all_ = false;
  std::optional<std::size_t> top_;
};

}  // namespace repro_check::cmd
