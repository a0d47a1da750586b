// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/recording/recording.h"
#include "cmd/reports/report_flags.h"
#include "cmd/run/run_rounds.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check run`: records every run of a configuration, compares, reports.
class RunCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "run"; }
  [[nodiscard]] std::string summary() const override {
    return "Record every run of a configuration and compare them";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] core::ExitCode finish(const GlobalOptions& globals,
                                      const configs::Config& config,
                                      const Round& round) const;

  ConfigOptions config_;
  ReportFlags report_;
  std::optional<std::string> out_;
  std::optional<std::uint64_t> repeat_;
  bool force_ = false;
  bool check_observer_ = false;
  bool explain_ = false;
};

}  // namespace repro_check::cmd
