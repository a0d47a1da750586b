// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/tensor/npy.h"

namespace repro_check::store {

/// One dataset of any HDF5 file, as a tensor.
/// @throws core::Error{kUsage} when file or dataset are missing or the type has no counterpart
core::HostTensor read_hdf5_tensor(const std::filesystem::path& file, const std::string& dataset);

}  // namespace repro_check::store
