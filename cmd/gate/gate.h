// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cmd/render/gate_outcome.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "configs/spec/gate_spec.h"

namespace repro_check::cmd {

/// What a gate is to judge.
struct GateCase {
  std::string name;
  configs::GateSpec spec;
  comparators::CompareOptions options;
  /// Of the runs; the first is what is compared with the baseline and may become one.
  std::vector<std::filesystem::path> dumps;
  std::vector<std::filesystem::path> references;  ///< where dumps may be that these refer to
  std::vector<comparators::Report> reports;       ///< on the runs among themselves
  std::filesystem::path output;                   ///< where the pending file goes
  std::filesystem::path config;                   ///< as the user typed it; may be empty
};

struct GateResult {
  std::vector<comparators::Report> reports;  ///< the one that decides the exit code first
  GateOutcome outcome;
};

/// Asks whether the runs agree with each other, and if they do, whether they agree with what was
/// accepted. Leaves a pending baseline in the output directory, unless a run failed or a file is
/// damaged.
/// @throws core::Error{kUsage} when an expected divergence matches no operator, core::Error{kIo}
GateResult judge_gate(GateCase gate);

/// Files of baselines in a directory, sorted; none where it does not exist.
std::vector<std::filesystem::path> baseline_files(const std::filesystem::path& directory);

/// Of those the ones that belong neither to gate `name` nor to a configuration beside `config`.
std::vector<std::filesystem::path> orphaned_files(const std::vector<std::filesystem::path>& files,
                                                  const std::string& name,
                                                  const std::filesystem::path& config);

/// @throws core::Error{kIo}
std::string read_text_file(const std::filesystem::path& file);

}  // namespace repro_check::cmd
