// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/options/policy_flags.h"
#include "cmd/recording/progress.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/command.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// `repro-check diff`: compares dumps with the first of them.
class DiffCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "diff"; }
  [[nodiscard]] std::string summary() const override { return "Compare dumps with the first one"; }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] comparators::Report judge_all(const comparators::CompareOptions& options,
                                              Progress& progress) const;

  std::string baseline_;
  std::vector<std::string> candidates_;
  PolicyFlags policy_;
  std::string verify_ = "all";
  bool partial_ = false;
  std::vector<std::string> references_;
  ReportFlags report_;
};

}  // namespace repro_check::cmd
