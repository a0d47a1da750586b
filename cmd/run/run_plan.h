// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cmd/recording/output_lock.h"
#include "cmd/recording/recording.h"
#include "cmd/reports/verdict.h"
#include "cmd/run/repeats.h"
#include "cmd/run/run_rounds.h"
#include "comparators/report/report.h"
#include "configs/spec/run_config.h"

namespace repro_check::cmd {

/// Holds every directory that the recordings of a configuration, and reports on them, go to.
/// @throws as hold_alone()
OutputLocks hold_outputs(const configs::Config& config);

/// The recordings a configuration asks for, all of whose places are free and whose recorders exist.
/// @param replace  what lies in those places may be replaced
/// @throws core::Error{kUsage}
std::vector<RecordingJob> plan_jobs(const configs::Config& config,
                                    bool digests_first,
                                    bool replace);

/// Records every run, and compares each with the first; several of one configuration as repeats.
/// @throws as look_closer()
Round record_runs(const configs::Config& config, const RunPlan& plan, Progress& progress);

/// Files of the formats that are not the one on stdout: `report.json`, `report.txt`.
void write_other_formats(std::span<const comparators::Report> reports,
                         const ReportStyle& style,
                         const std::vector<std::string>& formats,
                         const std::filesystem::path& directory);

}  // namespace repro_check::cmd
