// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"

namespace repro_check::store {

/// The HDF5 type that contents of each dtype are stored with, made once. DUMP_FORMAT.md has the
/// table.
class ElementTypes {
 public:
  explicit ElementTypes(const Blame& blame);

  /// @param dtype  any but kUnknown
  [[nodiscard]] hid_t of(core::Dtype dtype) const;

  /// The dtype a foreign type stands for, in either byte order; quantised dtypes and those that are
  /// stored as plain integers come back as integers.
  [[nodiscard]] std::optional<core::Dtype> recognise(hid_t type) const;

 private:
  static constexpr std::size_t kDtypes = 26;
  std::array<TypeHandle, kDtypes> types_;
  std::array<TypeHandle, kDtypes> swapped_;  ///< big-endian, where that is another type
};

/// Dimensions of the dataset for `shape`: the shape itself, or all elements in one dimension where
/// HDF5 has not that many.
std::vector<hsize_t> dataset_dims(std::span<const std::int64_t> shape);

/// A dataspace for `dims`; scalar where there are none.
SpaceHandle make_space(std::span<const hsize_t> dims, const Blame& blame);

/// `text` as a variable-length UTF-8 attribute, which h5py shows as `str`.
void write_text_attribute(hid_t object,
                          const char* name,
                          std::string_view text,
                          const Blame& blame);

}  // namespace repro_check::store
