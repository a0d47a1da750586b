// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comparators/audit/sweep.h"
#include "configs/parser/config_parser.h"
#include "core/trace/dump.h"

namespace repro_check::cmd {

/// Whether `--sweep` asks for `batch`, and for how many items; empty where it does not.
/// @throws core::Error{kUsage} where it asks for other settings as well, or for less than two items
std::optional<std::uint64_t> batch_asked(const std::vector<std::string>& words);

/// The configuration with so many items in the place of `{batch}` in the words of its programs.
/// @throws core::Error{kUsage} where the program that is run has no such place, or there is none
configs::Config with_batch(configs::Config config, std::uint64_t items);

/// A recording, and where it lies.
struct DumpAt {
  const core::DumpSource& dump;
  std::filesystem::path place;
};

/// Executes the calls of a batch again, for single items, in a recorder.
/// @param alone  the same calls for one item
/// @throws as ask_about_dump()
comparators::SweptDump sweep_batch(const DumpAt& batch,
                                   const DumpAt& alone,
                                   const std::optional<std::filesystem::path>& recorder);

}  // namespace repro_check::cmd
