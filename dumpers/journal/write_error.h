// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace repro_check::journal {

/// @param code  errno of what the system refused
/// @throws core::Error{kIo} with the path, the reason, and how to mend it where that is known
[[noreturn]] void write_failed(const std::filesystem::path& file, std::string_view what, int code);

/// Forces a file, or a directory, to the disk. @throws as write_failed()
void sync_path(const std::filesystem::path& path);

}  // namespace repro_check::journal
