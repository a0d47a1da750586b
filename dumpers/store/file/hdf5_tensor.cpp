// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/hdf5_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/text/printable.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {
namespace {

constexpr std::size_t kShown = 8;

struct Found {
  std::vector<std::string> names;
};

herr_t note_dataset(hid_t /*file*/, const char* name, const H5O_info_t* info, void* data) {
  auto* found = static_cast<Found*>(data);
  if (info->type != H5O_TYPE_DATASET) return 0;
  try {
    found->names.push_back(fmt::format("/{}", core::printable(name)));
  } catch (...) {
    return -1;  // no exception may cross C code
  }
  return found->names.size() > kShown ? 1 : 0;
}

std::string datasets_hint(hid_t file) {
  Found found;
  // The native order, as in TraceFile::names: others make HDF5 crash on a damaged file.
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, &note_dataset, &found, H5O_INFO_BASIC);
  if (found.names.empty()) return "the file holds no dataset";
  const bool more = found.names.size() > kShown;
  if (more) found.names.pop_back();
  std::ranges::sort(found.names);
  return fmt::format("it holds {}{}", fmt::join(found.names, ", "), more ? ", ..." : "");
}

std::string describe(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("integers of {} bits", bits);
    case H5T_FLOAT:
      return fmt::format("floating-point numbers of {} bits in a format of their own", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "records";
    case H5T_ENUM:
      return "an enumeration";
    default:
      return "a type that is no number";
  }
}

/// Unallocated and compressed datasets can claim any size; deflate packs about 1000 to 1 at best.
std::uint64_t checked_size(const std::vector<hsize_t>& dims,
                           std::uint64_t element,
                           const std::filesystem::path& file,
                           const Blame& blame) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kRatio = 1100;
  std::uint64_t bytes = element;
  bool empty = false;
  bool overflow = false;
  for (const hsize_t size : dims) {
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(bytes, std::max<hsize_t>(size, 1), &bytes);
  }
  if (empty) return 0;
  std::error_code code;
  const std::uint64_t stored = std::filesystem::file_size(file, code);
  if (overflow || (bytes > kAlways && bytes / kRatio > stored)) {
    blame.fail("claims to be larger than its file can hold");
  }
  return bytes;
}

}  // namespace

core::HostTensor read_hdf5_tensor(const std::filesystem::path& file, const std::string& dataset) {
  const Hdf5Scope scope;
  const Blame whole(core::ErrorKind::kUsage, file.string());
  std::error_code code;
  if (!std::filesystem::exists(file, code)) whole.fail("no such file");
  const PropertyHandle access = file_access(whole);
  const FileHandle opened(
      whole.id(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), "is not a whole HDF5 file"));
  const hid_t id = H5Dopen2(opened.get(), dataset.c_str(), H5P_DEFAULT);
  if (id < 0 || dataset.find('\0') != std::string::npos) {
    Blame(core::ErrorKind::kUsage, file.string(), datasets_hint(opened.get()))
        .inside(dataset)
        .fail("no such dataset");
  }
  const DatasetHandle found(id);
  const Blame blame = whole.inside(dataset);
  const TypeHandle type(blame.id(H5Dget_type(found.get()), "cannot be read"));
  const ElementTypes types(blame);
  const std::optional<core::Dtype> dtype = types.recognise(type.get());
  if (!dtype) blame.fail(fmt::format("holds {}, which no tensor can", describe(type.get())));

  const SpaceHandle space(blame.id(H5Dget_space(found.get()), "cannot be read"));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) blame.fail("holds nothing");
  std::array<hsize_t, H5S_MAX_RANK> room{};
  const int rank = H5Sget_simple_extent_dims(space.get(), room.data(), nullptr);
  if (rank < 0) blame.library_failed("cannot be read");
  const std::vector<hsize_t> dims(room.begin(), room.begin() + rank);
  core::HostTensor tensor;
  tensor.dtype = *dtype;
  tensor.shape.assign(dims.begin(), dims.end());
  tensor.bytes.resize(checked_size(dims, core::element_size(*dtype), file, blame));
  if (tensor.bytes.empty()) return tensor;
  blame.ok(
      H5Dread(found.get(), types.of(*dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()),
      "cannot be read");
  return tensor;
}

}  // namespace repro_check::store
