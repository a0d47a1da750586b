// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/digest/digest.h"

namespace repro_check::core {

/// digest_bytes() of what a file holds, however long it is.
/// @throws Error{kUsage} when it cannot be read
Digest digest_file(const std::filesystem::path& file);

}  // namespace repro_check::core
