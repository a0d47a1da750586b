// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "cmd/command.h"
#include "cmd/html_flag.h"
#include "cmd/verdict.h"
#include "comparators/report.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// --format, --output, --report, --all and --top, shared by the verbs that end in a report.
class ReportFlags {
 public:
  void define(CLI::App& app);

  [[nodiscard]] const std::optional<std::string>& format() const noexcept { return format_; }
  /// Divergent operators worth keeping in a report.
  [[nodiscard]] std::size_t max_items() const noexcept;

  /// Whether a report is asked for that shows every operator.
  [[nodiscard]] bool wants_trail() const noexcept { return html_.wanted(); }

  /// @throws core::Error{kUsage} when --output or --report names something that cannot be written
  void check_output() const;

  /// What the renderer is told.
  /// @param fallback  format when --format was not given
  [[nodiscard]] ReportStyle style(const GlobalOptions& globals, const std::string& fallback) const;

  /// Prints one document on stdout, or into --output, and writes what --report asks for.
  void emit(std::span<const comparators::Report> reports, const ReportStyle& style) const;

 private:
  std::optional<std::string> format_;
  std::optional<std::string> output_;
  HtmlFlag html_;
  bool all_ = false;
  std::optional<std::size_t> top_;
};

}  // namespace repro_check::cmd
