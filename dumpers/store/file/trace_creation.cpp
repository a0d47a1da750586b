// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/trace_creation.h"

#include <fmt/format.h>

#include <utility>

#include "core/tensor/dtype.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal_event.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

namespace {

/// Of fixed length: readers check it before they trust anything, and a text of variable length
/// would have them follow a pointer into the file's heap for it.
void write_fixed_attribute(hid_t file,
                           const char* name,
                           const std::string& text,
                           const Blame& blame) {
  const TypeHandle type(blame.id(H5Tcopy(H5T_C_S1), "cannot make a text type"));
  blame.ok(H5Tset_size(type.get(), text.size()), "cannot make a text type");
  blame.ok(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "cannot make a text type");
  const SpaceHandle space = make_space({}, blame);
  const AttributeHandle attribute(
      blame.id(H5Acreate2(file, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
               "cannot make an attribute"));
  blame.ok(H5Awrite(attribute.get(), type.get(), text.data()), "cannot write an attribute");
}

}  // namespace

PropertyHandle file_access(const Blame& blame) {
  PropertyHandle list(blame.id(H5Pcreate(H5P_FILE_ACCESS), "cannot make a property list"));
  blame.ok(H5Pset_file_locking(list.get(), false, true), "cannot switch file locks off");
  return list;
}

FileHandle create_trace(const std::filesystem::path& file, const Blame& blame) {
  const Hdf5Scope scope;
  const PropertyHandle access = file_access(blame);
  // Big contents are written in whole blocks, past the page cache.
  blame.ok(H5Pset_alignment(access.get(), journal::kSmallContent + 1, kDirectBlock),
           "cannot align the file");
  // The oldest format in which every piece of structure carries a checksum; readable since 1.8.
  blame.ok(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18),
           "cannot choose the file format");
  const PropertyHandle creation(
      blame.id(H5Pcreate(H5P_FILE_CREATE), "cannot make a property list"));
  blame.ok(H5Pset_obj_track_times(creation.get(), false), "cannot make a property list");
  FileHandle created(blame.id(H5Fcreate(file.c_str(), H5F_ACC_EXCL, creation.get(), access.get()),
                              "cannot create the trace"));
  write_fixed_attribute(created.get(), "format", core::kDumpFormatName, blame);
  write_fixed_attribute(created.get(), "version", format_version(), blame);
  return created;
}

GroupHandle make_group(hid_t parent, const std::string& name, const Blame& blame) {
  const Hdf5Scope scope;
  const PropertyHandle creation(
      blame.id(H5Pcreate(H5P_GROUP_CREATE), "cannot make a property list"));
  blame.ok(H5Pset_obj_track_times(creation.get(), false), "cannot make a property list");
  return GroupHandle(
      blame.id(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
               "cannot make a group"));
}

std::string format_version() {
  return fmt::format("{}.{}", core::kDumpFormatMajor, core::kDumpFormatMinor);
}

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
