// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check validate`: checks a configuration and says what would run.
class ValidateCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "validate"; }
  [[nodiscard]] std::string summary() const override {
    return "Check a configuration without running it";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  ConfigOptions config_;
};

}  // namespace repro_check::cmd
