// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/replay/replay.h"
#include "cmd/terminal/command.h"
#include "core/error.h"

namespace repro_check::cmd {

/// `repro-check replay`: executes one recorded operator again, by itself.
class ReplayCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "replay"; }
  [[nodiscard]] std::string summary() const override {
    return "Execute one recorded operator again, and see whether it repeats";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] ReplayPlan plan() const;
  void write(const std::string& document) const;
  /// @throws core::Error, the one given, when it is not about a dump
  [[nodiscard]] core::ExitCode report_unreadable(const core::Error& error,
                                                 const GlobalOptions& globals) const;

  std::string dump_;
  std::uint64_t op_ = 0;
  unsigned calls_ = 20;
  std::vector<int> threads_;
  std::vector<std::string> isas_;
  std::string dtype_ = "float64";
  std::string device_;
  std::optional<std::string> against_;
  std::optional<std::string> recorder_;
  std::optional<std::uint64_t> timeout_;
  std::vector<std::string> references_;
  std::optional<std::string> output_;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
