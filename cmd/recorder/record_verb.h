// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cmd/recorder/status_channel.h"

namespace repro_check::recorder {

/// Records the one run that the request file describes. Nothing is written before the model is
/// loaded and its inputs are made; what fails afterwards leaves an incomplete dump that says why.
/// @throws core::Error
void record(const std::filesystem::path& request_file, StatusChannel& status);

}  // namespace repro_check::recorder
