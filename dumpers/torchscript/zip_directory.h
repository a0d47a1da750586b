// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace repro_check::torchscript {

/// Names of the entries of a zip archive, in the order of its central directory. Reads nothing but
/// that directory and trusts none of its numbers.
/// @return empty when there is no whole central directory: no zip, or a truncated one
std::optional<std::vector<std::string>> zip_entry_names(const std::filesystem::path& file);

}  // namespace repro_check::torchscript
