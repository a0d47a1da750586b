// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

struct PrecisionPlan {
  std::filesystem::path dump;
  std::vector<std::filesystem::path> references;
  std::string of;  ///< op index, or path of a module; empty = the loss, or what was returned
  std::optional<double> at_least;
  std::optional<std::filesystem::path> values;  ///< .npy to write what float64 gives to
  std::optional<std::filesystem::path> recorder;
  std::optional<std::chrono::seconds> timeout;
};

/// Where a result of a dump lost its digits, as docs/precision.schema.json has it.
/// @throws core::Error{kNotComparable} for a dump that does not hold the values, saying what to
///         record; {kUsage} for a result that is not in it; as ask_about_dump()
Json measure_precision(const PrecisionPlan& plan);

}  // namespace repro_check::cmd
