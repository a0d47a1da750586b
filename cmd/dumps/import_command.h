// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check import`: a dump of a recording that was made without HDF5.
class ImportCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "import"; }
  [[nodiscard]] std::string summary() const override {
    return "Make a dump of a journal that was recorded without HDF5";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::string recording_;
  std::string out_;
  bool force_ = false;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
