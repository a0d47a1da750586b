// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check verify`: checks what dumps hold, each of them, and ends with the worst exit code.
class VerifyCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "verify"; }
  [[nodiscard]] std::string summary() const override {
    return "Check what dumps hold against their digests";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::vector<std::string> dumps_;
  std::vector<std::string> references_;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
