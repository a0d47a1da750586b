// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "cmd/run/run_rounds.h"
#include "comparators/compare.h"
#include "comparators/report/report.h"
#include "comparators/runs/repeatability.h"

namespace repro_check::cmd {

/// What dumps of one configuration say of its operators; those that cannot be opened are left out,
/// which is noted. None, where that leaves fewer than two.
comparators::OpRepeatability assess_dumps(const std::vector<std::filesystem::path>& dumps,
                                          const std::vector<std::filesystem::path>& references,
                                          std::size_t max_items);

/// One report on N runs: the one that decides the exit code, the earliest of several, which names
/// the statuses of all others and holds what they say together.
/// @param reports  of the second run and those after it, each against the first; one at least
comparators::Report sum_up(std::vector<comparators::Report> reports,
                           comparators::OpRepeatability ops);

/// How runs are recorded and judged.
struct RunPlan {
  std::vector<RecordingJob> jobs;
  comparators::CompareOptions options;
  bool digests_first = false;
  std::uint64_t window = 0;    ///< as look_closer() takes it
  bool replace_aside = false;  ///< what older runs left in digest_directory() goes away
};

/// Records all runs, each in a process of its own, judges each by the first, and records the values
/// of two of them, the first and one that differs from it, where digests were recorded first.
/// @return one report; when a run failed, with what the runs before it show
/// @throws as look_closer()
Round record_repeats(const RunPlan& plan, Progress& progress);

}  // namespace repro_check::cmd
