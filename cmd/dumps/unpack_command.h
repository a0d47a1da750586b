// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check unpack`: the dump that was packed.
class UnpackCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "unpack"; }
  [[nodiscard]] std::string summary() const override {
    return "Make the dump again that was packed, and check every byte of it";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::string pack_;
  std::optional<std::string> out_;
  bool force_ = false;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
