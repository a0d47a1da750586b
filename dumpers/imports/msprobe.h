// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "dumpers/imports/imported_dump.h"

namespace repro_check::imports {

/// What msprobe (mindstudio-probe) wrote of one step of one process: `dump.json`, beside it
/// `stack.json` and, of task `tensor`, the values in `dump_tensor_data`.
struct ProbeDump {
  std::filesystem::path folder;
  std::uint32_t step = 0;             ///< of `step3` in its path
  std::optional<std::uint32_t> rank;  ///< of `rank1` in its path
};

/// Those in a folder and below it, by rank and step; none where there is no dump.json.
std::vector<ProbeDump> find_probe_dumps(const std::filesystem::path& folder);

/// Appends its calls, in its order: modules and functions with their inputs, outputs, parameters
/// (named as the model names them) and lines of code. Values that were not stored have no content;
/// the statistics of an output are then results of the call, which are compared.
/// @throws core::Error{kUsage} where a file is missing, damaged, or not as msprobe writes it
void import_probe_dump(const ProbeDump& probe, ImportedDump& dump);

}  // namespace repro_check::imports
