// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace repro_check::store {

/// The directory of the complete dump that a user means by `path`: itself, or the directory of the
/// manifest.json or trace.h5 it names.
/// @throws core::Error{kDumpUnknown} when there is no dump, saying what is there instead;
///         core::Error{kDumpIncomplete} when a recording never finished
std::filesystem::path locate_dump(const std::filesystem::path& path);

}  // namespace repro_check::store
