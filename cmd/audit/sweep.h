// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparators/audit/sweep.h"
#include "core/trace/dump.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::cmd {

/// What `--sweep` asks for.
class SweepAsked {
 public:
  /// @param words  of the command line: `threads=1`, `8`, `isa`, `alignment`, `poison`,
  ///               `env:NAME=VALUE`
  /// @throws core::Error{kUsage} for another word
  explicit SweepAsked(const std::vector<std::string>& words);

  /// The rules that they are about, each once.
  [[nodiscard]] std::vector<const comparators::AuditRule*> rules() const;
  [[nodiscard]] const std::vector<comparators::SweepSetting>& settings() const { return settings_; }

  /// Executes the calls of a dump again, in a recorder for all settings of a process and in one for
  /// each variable of the environment.
  /// @param dump  borrowed
  /// @throws as ask_about_dump()
  [[nodiscard]] comparators::SweptDump sweep(
      const core::DumpSource& dump,
      const std::filesystem::path& place,
      const std::optional<std::filesystem::path>& recorder) const;

 private:
  using Variable = std::pair<std::string, std::string>;

  void add(replay::SweepSetting::Kind kind, std::int64_t value);
  void add(Variable variable);
  void add_word(const std::string& word);

  /// Those of one process, then those of variables.
  std::vector<comparators::SweepSetting> settings_;
  std::vector<replay::SweepSetting> of_process_;
  std::vector<Variable> variables_;
};

/// What a recorder measured of a call that gave something else.
/// @param setting  which of SweptDump::settings
comparators::SweepDifference difference_of(std::uint64_t op,
                                           const std::optional<replay::SweptOutput>& output,
                                           std::size_t setting);

}  // namespace repro_check::cmd
