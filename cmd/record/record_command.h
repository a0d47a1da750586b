// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check record`: one run of a configuration, one dump.
class RecordCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "record"; }
  [[nodiscard]] std::string summary() const override {
    return "Record one run of a configuration into one dump";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  ConfigOptions config_;
  std::string out_;
  std::optional<std::string> run_name_;
  std::string format_ = "text";
  bool force_ = false;
};

}  // namespace repro_check::cmd
