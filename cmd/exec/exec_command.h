// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// Records any program that uses PyTorch, unchanged.
class ExecCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "exec"; }
  [[nodiscard]] std::string summary() const override {
    return "Record a Python program that uses PyTorch, unchanged";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::vector<std::string> command_;
  std::string out_;
  std::string level_ = "digest";
  std::string depth_ = "top";
  std::string determinism_ = "off";
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
  std::uint32_t seed_ = 0;
  double timeout_ = 0;
  bool no_seed_ = false;
  bool disable_dropout_ = false;
  bool force_ = false;
};

}  // namespace repro_check::cmd
