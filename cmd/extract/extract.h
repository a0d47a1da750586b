// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// What `extract` wrote.
struct Extraction {
  std::filesystem::path script;
  std::filesystem::path data;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// Writes `output` (`.py` or `.cpp`) and, beside it, a directory `<stem>.data` of .npy files.
/// Dtypes that NumPy lacks are stored as bytes.
/// @throws core::Error{kNotComparable} as core::require_replayable(), core::Error{kUsage},
///         core::Error{kIo}
Extraction extract(const core::DumpSource& dump,
                   std::uint64_t op,
                   const std::filesystem::path& output,
                   bool force);

}  // namespace repro_check::cmd
