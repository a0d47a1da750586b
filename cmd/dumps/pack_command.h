// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {

/// `repro-check pack`: a dump as one compressed file.
class PackCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "pack"; }
  [[nodiscard]] std::string summary() const override {
    return "Make one compressed file of a dump, for keeping or sending";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::string dump_;
  std::optional<std::string> out_;
  store::PackOptions options_;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
