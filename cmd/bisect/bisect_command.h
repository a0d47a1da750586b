// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/bisect/bisect.h"
#include "cmd/options/config_options.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check bisect`: which of the differences between two runs make them diverge.
class BisectCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "bisect"; }
  [[nodiscard]] std::string summary() const override {
    return "Find the fewest differing settings that make two runs diverge";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] BisectPlan plan(const configs::Config& config) const;
  [[nodiscard]] core::ExitCode print(const GlobalOptions& globals,
                                     const BisectPlan& plan,
                                     const BisectResult& result) const;

  ConfigOptions config_;
  std::optional<std::string> out_;
  std::uint64_t times_ = 1;
  bool force_ = false;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
