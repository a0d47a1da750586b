// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace repro_check::cmd {

/// Where a recorder is looked for, in order: `REPRO_CHECK_RECORDER`, beside the tool, and in
/// `../libexec/repro-check/` from there. When the variable is set nothing else is looked at.
std::vector<std::filesystem::path> recorder_places();

/// The first of recorder_places() that can be run.
std::optional<std::filesystem::path> find_recorder();

/// `named`, if given, else find_recorder().
/// @throws core::Error{kUsage} saying where was looked and what to do
std::filesystem::path require_recorder(const std::optional<std::filesystem::path>& named);

}  // namespace repro_check::cmd
