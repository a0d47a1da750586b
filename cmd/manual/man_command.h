// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check man`: the manual pages, made of the options of the tool.
class ManCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "man"; }
  [[nodiscard]] std::string summary() const override { return "Print a manual page"; }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  const CLI::App* app_ = nullptr;
  std::optional<std::string> verb_;
  std::optional<std::string> directory_;
};

}  // namespace repro_check::cmd
