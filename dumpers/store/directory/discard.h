// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace repro_check::store {

/// @throws core::Error{kUsage} when what is in `directory` is no recording, or still being written
void require_discardable(const std::filesystem::path& directory);

/// Removes the recording in `directory`, complete or not; that there is none is no error.
/// @throws as require_discardable(); core::Error{kIo}
void discard_recording(const std::filesystem::path& directory);

}  // namespace repro_check::store
