// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cmd/render/render.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

/// What a gate is to judge.
struct GateCase {
  configs::GateSpec spec;  ///< whose baselines have a directory and a name
  comparators::CompareOptions options;
  /// Of the runs; the first is what is compared with the baseline and may become one.
  std::vector<std::filesystem::path> dumps;
  std::vector<std::filesystem::path> references;  ///< where dumps may be that these refer to
  std::vector<Report> reports;                    ///< on the runs among themselves
  std::filesystem::path output;                   ///< where the pending file goes
  std::filesystem::path config;                   ///< as the user typed it; may be empty
  std::vector<std::string> flags;  ///< that he gave, and every verb of the gate takes
  std::string directory;           ///< the same of --out, or --against; may be empty
};

struct GateResult {
  std::vector<Report> reports;  ///< the one that decides the exit code first
  GateOutcome outcome;
};

/// To be asked before a gate records: what an unseeded program gives is nothing that was accepted
/// under a seed.
/// @throws core::Error{kNotComparable} where every baseline of the gate has one, and the
///         configuration names none
void require_accepted_seed(const GateCase& gate, const configs::Config& config);

/// A gate that is not told a depth records at that of its baselines, where they are of one depth.
void follow_accepted_depth(const GateCase& gate, configs::Config& config);

/// Asks whether the runs agree with each other, and if they do, whether they agree with what was
/// accepted. Leaves a pending baseline in the output directory, unless a run failed or a file is
/// damaged.
/// @throws core::Error{kUsage} when an expected divergence matches no operator, core::Error{kIo}
GateResult judge_gate(GateCase gate);

/// Where one gate keeps what it accepts.
struct GatePlace {
  std::string name;
  std::filesystem::path baselines;
  std::filesystem::path config;  ///< as the user typed it; may be empty
  /// What its first run loads now; the paths in a pending file are of the machine that wrote it.
  std::optional<std::filesystem::path> model;
  std::optional<std::filesystem::path> weights_from;
};

/// Makes baselines of pending files, all or none of them, and removes those.
/// @return what changes, a line a file
/// @throws core::Error{kUsage} when one cannot be accepted: its runs disagree, the model is another
///         by now, or it is of another gate; core::Error{kDumpDamaged}, core::Error{kIo}
std::string accept_pending(const GatePlace& place, const std::vector<std::filesystem::path>& files);

/// Pending files of a gate in a directory, of whatever platform, sorted.
std::vector<std::filesystem::path> pending_files(const std::filesystem::path& directory,
                                                 const std::string& gate);

/// Removes what earlier runs of a gate left to be accepted, so that only the last one's is there.
/// @throws core::Error{kIo}
void remove_pending(const std::filesystem::path& directory, const std::string& gate);

/// A line a baseline: file, platform, operators, age, and whether anybody asks for it.
std::string baseline_status(const GatePlace& place);

/// Removes the orphans, or says which they are.
std::string prune_baselines(const GatePlace& place, bool dry_run);

/// Whether this runs inside a CI job: CI is set, and neither empty, `0` nor `false`.
bool is_ci();

}  // namespace repro_check::cmd
