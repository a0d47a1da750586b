// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/trace_creation.h"

#include <fmt/format.h>

#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal.h"
#include "dumpers/store/file/direct_file.h"
#include "dumpers/store/file/element_types.h"

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

}  // namespace repro_check::store
