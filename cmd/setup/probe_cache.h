// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace repro_check::cmd {

/// A probe that was built at first use, as repro_check_probe.py keeps it.
struct BuiltProbe {
  std::string torch;  ///< version of the PyTorch that it was built against
  std::filesystem::path file;
  std::uint64_t bytes = 0;
};

/// Where this user's are: $XDG_CACHE_HOME/repro-check, else ~/.cache/repro-check.
std::filesystem::path probe_cache();

/// Those in `cache`, by name; none where there is no such folder.
/// @throws core::Error{kIo} where it cannot be read
std::vector<BuiltProbe> built_probes(const std::filesystem::path& cache);

/// Removes them, with the logs and locks of their builds and what interrupted ones have left, and
/// `cache` itself where nothing else is in it. What is being built stays.
/// @return the probes that were removed
/// @throws core::Error{kIo} where something cannot be removed
std::vector<BuiltProbe> remove_built_probes(const std::filesystem::path& cache);

}  // namespace repro_check::cmd
