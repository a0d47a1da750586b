// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/store/relay.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "dumpers/store/file/hdf5.h"
#include "tests/dumpers/store/forge.h"

namespace repro_check::test_support {
namespace {

using store::DatasetHandle;
using store::GroupHandle;
using store::PropertyHandle;
using store::SpaceHandle;
using store::TypeHandle;

template <typename Code>
Code must(Code code) {
  if (code < 0) throw std::runtime_error("the trace cannot be laid out anew");
  return code;
}

/// h5py's way to a type of the other order: each of its numbers by itself.
TypeHandle ordered(hid_t type, H5T_order_t order) {
  if (H5Tget_class(type) != H5T_COMPOUND) {
    TypeHandle copy(must(H5Tcopy(type)));
    if (H5Tget_class(type) != H5T_ENUM) must(H5Tset_order(copy.get(), order));
    return copy;
  }
  TypeHandle made(must(H5Tcreate(H5T_COMPOUND, H5Tget_size(type))));
  for (unsigned i = 0; i < static_cast<unsigned>(H5Tget_nmembers(type)); ++i) {
    const TypeHandle member(must(H5Tget_member_type(type, i)));
    char* name = H5Tget_member_name(type, i);
    must(H5Tinsert(
        made.get(), name, H5Tget_member_offset(type, i), ordered(member.get(), order).get()));
    H5free_memory(name);
  }
  return made;
}

PropertyHandle creation(hid_t space, std::size_t bytes, H5D_layout_t storage) {
  constexpr std::size_t kMostCompact = 60'000;
  PropertyHandle list(must(H5Pcreate(H5P_DATASET_CREATE)));
  std::vector<hsize_t> dims(static_cast<std::size_t>(must(H5Sget_simple_extent_ndims(space))));
  must(H5Sget_simple_extent_dims(space, dims.data(), nullptr));
  const bool can_chunk = !dims.empty() && bytes != 0;
  if (storage == H5D_CHUNKED && can_chunk) {
    // More than one chunk a dimension, and none that divides it.
    for (hsize_t& size : dims) size = size / 2 + 1;
    must(H5Pset_chunk(list.get(), static_cast<int>(dims.size()), dims.data()));
  } else if (storage == H5D_COMPACT && bytes < kMostCompact) {
    must(H5Pset_layout(list.get(), H5D_COMPACT));
  }
  return list;
}

void relay_dataset(hid_t group, const char* name, const Layout& layout) {
  std::vector<std::byte> bytes;
  TypeHandle type;
  SpaceHandle space;
  {
    const DatasetHandle dataset(must(H5Dopen2(group, name, H5P_DEFAULT)));
    type = TypeHandle(must(H5Dget_type(dataset.get())));
    space = SpaceHandle(must(H5Dget_space(dataset.get())));
    bytes.resize(static_cast<std::size_t>(must(H5Sget_simple_extent_npoints(space.get()))) *
                 H5Tget_size(type.get()));
    must(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
  }
  must(H5Ldelete(group, name, H5P_DEFAULT));
  const TypeHandle stored = ordered(type.get(), layout.order);
  const PropertyHandle list = creation(space.get(), bytes.size(), layout.storage);
  const DatasetHandle made(must(
      H5Dcreate2(group, name, stored.get(), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT)));
  must(H5Dwrite(made.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
}

herr_t collect(hid_t /*group*/, const char* name, const H5L_info_t* /*info*/, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

void relay(const std::filesystem::path& dump, const Layout& layout) {
  edit_trace(dump, [&](hid_t file) {
    for (const char* group_name : {"index", "content"}) {
      const GroupHandle group(must(H5Gopen2(file, group_name, H5P_DEFAULT)));
      std::vector<std::string> names;
      must(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &collect, &names));
      for (const std::string& name : names) relay_dataset(group.get(), name.c_str(), layout);
    }
    if (H5Lexists(file, "packed", H5P_DEFAULT) > 0) relay_dataset(file, "packed", layout);
  });
}

}  // namespace repro_check::test_support
