// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cmd/reports/report_flags.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check report`: renders a JSON report again, or the history of a gate.
class ReportCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "report"; }
  [[nodiscard]] std::string summary() const override {
    return "Render a JSON report again, or the history of a gate";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] core::ExitCode render_again(const GlobalOptions& globals) const;
  [[nodiscard]] core::ExitCode show_history(const GlobalOptions& globals) const;

  ReportFlags report_;
  std::optional<std::string> file_;
  std::optional<std::string> history_;
  std::optional<std::string> gate_;
  std::optional<std::size_t> last_;
};

}  // namespace repro_check::cmd
