// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace repro_check::cmd {

/// What was built at first use against one PyTorch, of one kit, as repro_check_kit.py keeps it.
struct Built {
  std::string torch;  ///< version of the PyTorch
  std::filesystem::path folder;
  std::vector<std::string> products;  ///< `probe`, `recorder`; none where a build did not end
  std::uint64_t bytes = 0;            ///< of everything in the folder
};

/// Where this user's are: $XDG_CACHE_HOME/repro-check, else ~/.cache/repro-check.
std::filesystem::path built_cache();

/// Those in `cache` that have a product, by name; none where there is no such folder.
/// @throws core::Error{kIo} where it cannot be read
std::vector<Built> list_built(const std::filesystem::path& cache);

/// Removes them, what interrupted builds have left too, and `cache` itself where nothing else is in
/// it. What is being built stays.
/// @return what had a product
/// @throws core::Error{kIo} where something cannot be removed
std::vector<Built> remove_built(const std::filesystem::path& cache);

}  // namespace repro_check::cmd
