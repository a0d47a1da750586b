// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cmd/recording/progress.h"
#include "cmd/recording/recording.h"
#include "configs/spec/run_config.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

/// Bytes of the files in the folder of a dump, or of a recording that becomes one, with those of
/// other ranks and processes in it; empty where they cannot be asked.
std::optional<std::uint64_t> dump_size(const std::filesystem::path& dump);

/// What a recording is expected to take on its disk. Where nothing is known there is none, and the
/// recorder alone looks whether there is any room.
struct SpaceEstimate {
  std::uint64_t bytes = 0;
  std::string reason;  ///< why that is believed: `as baseline took`
};

/// What a run takes of which another one, of the same model, calls and dump section, is recorded.
/// @param done  whole, in done_at
/// @return empty where the two do not record the same, or the dump cannot be measured
std::optional<SpaceEstimate> estimate_from(const configs::RunSpec& done,
                                           const std::filesystem::path& done_at,
                                           const configs::RunSpec& next);

/// What a recording of the same run takes that keeps the bytes of `operators`.
/// @param digests    the dump of the run that holds its digests
/// @param operators  empty = all
/// @return empty where dump.slice leaves a part of it out, or a dump cannot be read
std::optional<SpaceEstimate> estimate_values(const std::filesystem::path& digests,
                                             const RecordingJob& next,
                                             const core::OpRanges& operators);

/// What a recording takes whose place holds a dump of the same configuration already, or has
/// digests of it set aside; of files that were not changed since.
std::optional<SpaceEstimate> estimate_from_earlier(const RecordingJob& job);

/// Bytes of what a run is given: files of the model and of inputs, and the inputs that are made.
/// A yardstick for what it may record, and no bound.
std::uint64_t given_bytes(const configs::RunSpec& run);

/// Whether so little is free that a recording of every tensor should be measured before it is made.
bool is_scarce(std::uint64_t free, std::uint64_t given) noexcept;

/// The failure of a run that is not begun, since it could not end well.
/// @param free  as core::free_space() says
/// @return empty where the estimate fits
std::optional<RecordingResult> refuse_for_space(const RecordingJob& job,
                                                const SpaceEstimate& estimate,
                                                std::uint64_t free);

/// As record(), of a run that the disk can take: one that is known to need more than is free is
/// refused before its model is loaded. Where nothing is known of a recording of tensors and there
/// is little room, the run is recorded with digests alone first, into `<dump>.measure`, which tells
/// its size; that recording is removed again.
/// @param known  what it will take; without it, what an earlier dump or a measurement tells
RecordingResult record_where_it_fits(const RecordingJob& job,
                                     const std::optional<SpaceEstimate>& known,
                                     Progress& progress);

}  // namespace repro_check::cmd
