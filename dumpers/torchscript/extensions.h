// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "core/trace/run_manifest.h"

namespace repro_check::torchscript {

/// Loads libraries that register operators or classes with LibTorch, one after the other. They stay
/// for the life of the process.
/// @return `extension.libmy.so` and the digest of the file, for each
/// @throws core::Error{kUsage} for one that cannot be loaded
std::vector<core::EnvironmentFact> load_extensions(
    const std::vector<std::filesystem::path>& libraries);

}  // namespace repro_check::torchscript
