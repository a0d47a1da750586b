// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check extract`: makes a stand-alone program of one recorded operator.
class ExtractCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "extract"; }
  [[nodiscard]] std::string summary() const override {
    return "Write a stand-alone reproducer of one recorded operator";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  std::string dump_;
  std::uint64_t op_ = 0;
  std::string out_;
  bool force_ = false;
  std::vector<std::string> references_;
};

}  // namespace repro_check::cmd
