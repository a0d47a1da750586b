// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"

namespace repro_check::store {

/// How we open HDF5 files: without its file locks. Our own tell recordings apart, and read-only and
/// network file systems have none.
PropertyHandle file_access(const Blame& blame);

/// A new trace.h5 with its format attributes; big datasets will start at a multiple of
/// kDirectBlock.
FileHandle create_trace(const std::filesystem::path& file, const Blame& blame);

/// A group that does not remember when it was made: a dump depends on what was recorded only.
GroupHandle make_group(hid_t parent, const std::string& name, const Blame& blame);

/// `1.0`, the version that create_trace writes.
std::string format_version();

}  // namespace repro_check::store
