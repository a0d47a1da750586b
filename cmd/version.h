// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace repro_check::cmd {

/// Versions of the tool, HDF5, the dump format, and of the LibTorch of the recorder that would be
/// used, if there is one. No trailing newline.
std::string version_text();

}  // namespace repro_check::cmd
