// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/command.h"
#include "cmd/report_flags.h"
#include "configs/run_config.h"

namespace repro_check::cmd {

/// `repro-check diff`: compares two dumps.
class DiffCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "diff"; }
  [[nodiscard]] std::string summary() const override { return "Compare two dumps"; }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] configs::CompareSpec spec() const;

  std::string baseline_;
  std::string candidate_;
  std::optional<std::string> policy_;
  std::optional<double> rtol_;
  std::optional<double> atol_;
  std::optional<std::string> equal_nan_;
  std::optional<bool> signed_zero_;
  std::string align_ = "keyed";
  std::string order_ = "strict";
  std::string verify_ = "all";
  bool partial_ = false;
  std::vector<std::string> references_;
  ReportFlags report_;
};

}  // namespace repro_check::cmd
