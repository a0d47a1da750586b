// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comparators/report/finding.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

/// Two recorded processes that were made alike.
struct ProcessPair {
  std::string baseline;   ///< name of its dump
  std::string candidate;  ///< the same
  std::string how;        ///< it was made in the baseline
};

/// The other processes of two runs of a program.
struct ProcessPairs {
  std::vector<ProcessPair> pairs;
  /// Processes that one run alone has, and those of which nothing was recorded although they had
  /// loaded PyTorch.
  comparators::Phrases reasons;
};

/// Pairs processes by how they were made and by their command lines, those that are alike in that
/// in their order; what is left, by how alone where both runs have as many.
ProcessPairs pair_processes(const std::vector<core::ChildProcess>& baseline,
                            const std::vector<core::ChildProcess>& candidate);

}  // namespace repro_check::cmd
