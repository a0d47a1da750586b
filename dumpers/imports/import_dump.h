// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::imports {

struct ImportOptions {
  std::optional<std::string> pattern;  ///< of FileNames; not for what msprobe wrote
  std::string tool_version;            ///< for the manifest
  store::DumpWriterOptions writing;
  /// Told how many files of how many are read; may throw.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// What was imported.
struct ImportSummary {
  std::uint64_t files = 0;
  std::uint64_t ranks = 0;  ///< 0: the names tell none, and there is one dump
  core::TraceSummary trace;
  /// What was not read, and how often: `file .txt`, `file beside the pattern`, a class in a pickle.
  std::map<std::string, std::uint64_t> left_out;
};

/// Makes a dump of what another tool wrote: a file of tensors, a folder of such files, or a folder
/// of msprobe, told by a `dump.json` in it. A tensor is a record `repro_check::tensor`, whose
/// module is its name; a call that msprobe recorded is a record of its own. Where names tell of
/// several ranks, `to` becomes a directory of a dump a rank.
/// @throws core::Error{kUsage} where there is nothing to import, a file cannot be read, or two
///         tensors of a step and rank have one name and no call; core::Error{kIo}
ImportSummary import_dump(const std::filesystem::path& from,
                          const std::filesystem::path& to,
                          const ImportOptions& options);

}  // namespace repro_check::imports
