// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/system/file_descriptor.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"

namespace repro_check::store {

/// The same type, laid out alike, with every number in it little-endian: what our own dumps hold.
TypeHandle little_endian(hid_t type, const Blame& blame);

/// The elements of a dataset as a contiguous one would hold them, in a temporary file without a
/// name: disk instead of memory, because a tensor may be larger than that.
/// @param type   little_endian() of the dataset's
/// @param bytes  of all elements; not 0
/// @throws core::Error{kDumpDamaged} when HDF5 cannot read it, {kIo} when there is no room
core::FileDescriptor plain_copy(hid_t dataset, hid_t type, std::uint64_t bytes, const Blame& blame);

}  // namespace repro_check::store
