// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check recover`: a dump of what a killed recording has left.
class RecoverCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "recover"; }
  [[nodiscard]] std::string summary() const override {
    return "Make a dump of what a killed recording has left";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::string recording_;
  std::optional<std::string> out_;
  bool force_ = false;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
