// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace repro_check::recorder {

/// Executes one recorded operator again, as the request file says, under the settings of the dump's
/// manifest. Both, and the answer, are as cmd/replay/replay_message.h has them.
/// @throws core::Error
std::string replay(const std::filesystem::path& request_file);

}  // namespace repro_check::recorder
