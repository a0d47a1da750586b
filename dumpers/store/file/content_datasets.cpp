// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/content_datasets.h"

#include <fmt/format.h>

#include <utility>

#include "core/tensor/dtype.h"

namespace repro_check::store {

PropertyHandle contiguous_creation(const Blame& blame) {
  PropertyHandle list(blame.id(H5Pcreate(H5P_DATASET_CREATE), "cannot make a property list"));
  blame.ok(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "cannot make a property list");
  blame.ok(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "cannot make a property list");
  blame.ok(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "cannot make a property list");
  blame.ok(H5Pset_obj_track_times(list.get(), false), "cannot make a property list");
  return list;
}

ContentDatasets::ContentDatasets(hid_t group, Blame blame)
    : group_(group),
      blame_(std::move(blame)),
      types_(blame_),
      creation_(contiguous_creation(blame_)) {}

Blame ContentDatasets::blame_for(const core::ContentKey& key) const {
  return blame_.inside(fmt::format("/content/{}", core::content_name(key)));
}

DatasetHandle ContentDatasets::create(const core::ContentKey& key, const Blame& blame) const {
  const SpaceHandle space = make_space(dataset_dims(key.shape), blame);
  DatasetHandle dataset(blame.id(H5Dcreate2(group_,
                                            core::content_name(key).c_str(),
                                            types_.of(key.dtype),
                                            space.get(),
                                            H5P_DEFAULT,
                                            creation_.get(),
                                            H5P_DEFAULT),
                                 "cannot store a tensor"));
  write_text_attribute(dataset.get(), "dtype", core::dtype_name(key.dtype), blame);
  return dataset;
}

std::uint64_t ContentDatasets::allocate(const core::ContentKey& key) const {
  const Hdf5Scope scope;
  const Blame blame = blame_for(key);
  const DatasetHandle dataset = create(key, blame);
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) blame.library_failed("cannot find room for a tensor");
  return offset;
}

void ContentDatasets::rename(const core::ContentKey& from, const core::ContentKey& to) const {
  const Hdf5Scope scope;
  blame_for(from).ok(H5Lmove(group_,
                             core::content_name(from).c_str(),
                             group_,
                             core::content_name(to).c_str(),
                             H5P_DEFAULT,
                             H5P_DEFAULT),
                     "cannot rename a tensor");
}

void ContentDatasets::remove(const core::ContentKey& key) const {
  const Hdf5Scope scope;
  blame_for(key).ok(H5Ldelete(group_, core::content_name(key).c_str(), H5P_DEFAULT),
                    "cannot remove a tensor");
}

void ContentDatasets::write(const core::ContentKey& key, std::span<const std::byte> bytes) const {
  const Hdf5Scope scope;
  const Blame blame = blame_for(key);
  const DatasetHandle dataset = create(key, blame);
  if (bytes.empty()) return;
  blame.ok(
      H5Dwrite(dataset.get(), types_.of(key.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
      "cannot store a tensor");
}

}  // namespace repro_check::store
