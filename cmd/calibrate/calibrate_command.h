// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/config_options.h"
#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/terminal/command.h"
#include "configs/spec/noise_floors.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

/// `repro-check calibrate`: how far runs of one configuration are apart by themselves.
class CalibrateCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "calibrate"; }
  [[nodiscard]] std::string summary() const override {
    return "Measure how far repeats of the baseline are apart";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  [[nodiscard]] std::filesystem::path directory(const configs::Config& config) const;
  [[nodiscard]] std::vector<RecordingJob> plan(const configs::Config& config) const;
  [[nodiscard]] std::filesystem::path file_of(const configs::Config& config) const;
  [[nodiscard]] core::ExitCode report_failure(const GlobalOptions& globals,
                                              const RecordingResult& failed) const;

  ConfigOptions config_;
  std::uint64_t runs_ = 10;
  std::optional<std::string> output_;
  std::optional<std::string> out_;
  bool keep_ = false;
  bool force_ = false;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
