// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/gate/gate.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/progress.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/command.h"

namespace repro_check::cmd {

/// `repro-check gate`: judges runs among themselves and by what was accepted.
class GateCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "gate"; }
  [[nodiscard]] std::string summary() const override {
    return "Judge runs in CI: do they agree, and is it what was accepted";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  void define_accept(CLI::App& app);
  /// What the verbs below share with the gate, so that it may stand on either side of them.
  void define_out(CLI::App& app);
  void define_place(CLI::App& app);
  [[nodiscard]] GateCase gate_case(const configs::Config* config) const;
  void record(const configs::Config& config,
              Progress& progress,
              GateCase& gate,
              std::vector<RunLog>& logs) const;
  void take_dumps(Progress& progress, GateCase& gate) const;
  /// @param config  null where none was given
  [[nodiscard]] OutputLocks hold_output(const configs::Config* config) const;
  [[nodiscard]] configs::BaselinesSpec baselines_spec(const configs::BaselinesSpec& given) const;
  [[nodiscard]] std::string gate_name(const configs::BaselinesSpec& given) const;
  [[nodiscard]] GatePlace place(const configs::Config& config) const;
  [[nodiscard]] core::ExitCode accept() const;

  ConfigOptions config_;
  ReportFlags report_;
  std::optional<std::string> against_;
  std::optional<std::string> out_;
  std::optional<std::string> baselines_;
  std::optional<std::string> name_;
  std::optional<std::uint64_t> repeat_;
  std::optional<std::string> history_;
  CLI::App* accept_app_ = nullptr;
  CLI::App* status_app_ = nullptr;
  CLI::App* prune_app_ = nullptr;
  std::vector<std::string> files_;
  std::optional<std::string> from_dir_;
  bool yes_in_ci_ = false;
  bool dry_run_ = false;
};

}  // namespace repro_check::cmd
