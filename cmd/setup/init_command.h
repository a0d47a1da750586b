// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check init`: a starting configuration for a model, from the schema of its method.
class InitCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "init"; }
  [[nodiscard]] std::string summary() const override {
    return "Write a starting configuration for a model";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  void require_free_output() const;
  /// As the configuration will name it: relative to where the configuration lies.
  [[nodiscard]] std::string model_path() const;

  std::string model_;
  std::string method_ = "forward";
  std::optional<std::string> output_;
  bool force_ = false;
};

}  // namespace repro_check::cmd
