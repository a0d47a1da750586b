// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check env`: what the machine is, or the variables a configuration pins.
class EnvCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "env"; }
  [[nodiscard]] std::string summary() const override {
    return "Show the machine, or the variables a configuration pins";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  ConfigOptions config_;
  std::optional<std::string> run_name_;
};

}  // namespace repro_check::cmd
