// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/hdf5_tensor.h"

#include <doctest/doctest.h>

#include <complex>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "dumpers/store/file/hdf5.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

using core::Dtype;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::TempDirectory;

/// A foreign HDF5 file with whatever a test puts into it.
class Foreign {
 public:
  Foreign()
      : path(directory_ / "in.h5"),
        file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    REQUIRE(file_.get() >= 0);
  }

  template <typename T>
  void put(const char* name,
           hid_t stored,
           hid_t memory,
           const std::vector<hsize_t>& dims,
           const std::vector<T>& values,
           hid_t list = H5P_DEFAULT) {
    const Blame blame(ErrorKind::kInternal, "test");
    const SpaceHandle space = make_space(dims, blame);
    const PropertyHandle links(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    const DatasetHandle dataset(
        H5Dcreate2(file_.get(), name, stored, space.get(), links.get(), list, H5P_DEFAULT));
    REQUIRE(dataset.get() >= 0);
    REQUIRE(H5Dwrite(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  }
  [[nodiscard]] hid_t id() const { return file_.get(); }
  core::HostTensor read(const std::string& name) {
    H5Fflush(file_.get(), H5F_SCOPE_GLOBAL);
    file_ = FileHandle();
    return read_hdf5_tensor(path, name);
  }

 private:
  TempDirectory directory_;

 public:
  std::filesystem::path path;

 private:
  FileHandle file_;
};

template <typename T>
std::vector<T> values_of(const core::HostTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST_CASE("integers and floats are read in either byte order") {
  const std::vector<double> numbers{1, 2, 120};
  const std::vector<std::pair<hid_t, Dtype>> types{{H5T_STD_U8LE, Dtype::kUInt8},
                                                   {H5T_STD_U16BE, Dtype::kUInt16},
                                                   {H5T_STD_U32LE, Dtype::kUInt32},
                                                   {H5T_STD_U64BE, Dtype::kUInt64},
                                                   {H5T_STD_I8BE, Dtype::kInt8},
                                                   {H5T_STD_I16LE, Dtype::kInt16},
                                                   {H5T_STD_I32BE, Dtype::kInt32},
                                                   {H5T_STD_I64BE, Dtype::kInt64},
                                                   {H5T_IEEE_F32BE, Dtype::kFloat32},
                                                   {H5T_IEEE_F64LE, Dtype::kFloat64},
                                                   {H5T_IEEE_F64BE, Dtype::kFloat64}};
  for (const auto& [stored, dtype] : types) {
    CAPTURE(core::dtype_name(dtype));
    Foreign file;
    file.put("x", stored, H5T_NATIVE_DOUBLE, {3, 1}, numbers);
    const core::HostTensor tensor = file.read("x");
    CHECK(tensor.dtype == dtype);
    CHECK(tensor.shape == std::vector<std::int64_t>{3, 1});
    REQUIRE(tensor.bytes.size() == 3 * core::element_size(dtype));
    // The last one is 120 in every width.
    const std::byte* last = tensor.bytes.data() + 2 * core::element_size(dtype);
    if (dtype == Dtype::kFloat32) {
      CHECK(values_of<float>(tensor)[2] == 120.0F);
    } else if (dtype == Dtype::kFloat64) {
      CHECK(values_of<double>(tensor)[2] == 120.0);
    } else {
      CHECK(*last == std::byte{120});
    }
  }
}

TEST_CASE("complex numbers, h5py's bool, chunks and compression, scalars and nothing") {
  const Blame blame(ErrorKind::kInternal, "test");
  const ElementTypes types(blame);
  Foreign file;
  SUBCASE("complex") {
    const std::vector<std::complex<float>> numbers{{1, -2}, {0, 3}};
    file.put("x", types.of(Dtype::kComplex64), types.of(Dtype::kComplex64), {2}, numbers);
    const core::HostTensor tensor = file.read("/x");
    CHECK(tensor.dtype == Dtype::kComplex64);
    CHECK(values_of<std::complex<float>>(tensor) == numbers);
  }
  SUBCASE("bool") {
    const std::vector<signed char> truths{1, 0, 1};
    file.put("x", types.of(Dtype::kBool), types.of(Dtype::kBool), {3}, truths);
    const core::HostTensor tensor = file.read("x");
    CHECK(tensor.dtype == Dtype::kBool);
    CHECK(values_of<signed char>(tensor) == truths);
  }
  SUBCASE("chunks") {
    const PropertyHandle list(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk = 2;
    REQUIRE(H5Pset_chunk(list.get(), 1, &chunk) >= 0);
    if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) REQUIRE(H5Pset_deflate(list.get(), 1) >= 0);
    const std::vector<float> numbers{1, 2, 3};
    file.put("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {3}, numbers, list.get());
    CHECK(values_of<float>(file.read("x")) == numbers);
  }
  SUBCASE("scalar") {
    file.put("x", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, std::vector<double>{0.5});
    const core::HostTensor tensor = file.read("x");
    CHECK(tensor.shape.empty());
    CHECK(values_of<double>(tensor) == std::vector<double>{0.5});
  }
  SUBCASE("no elements") {
    file.put("x", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {0, 4}, std::vector<double>{});
    const core::HostTensor tensor = file.read("x");
    CHECK(tensor.shape == std::vector<std::int64_t>{0, 4});
    CHECK(tensor.bytes.empty());
  }
}

TEST_CASE("a tensor of a dump is a tensor of an HDF5 file") {
  const TempDirectory directory;
  const auto sample = test_support::make_sample(1, 0);
  test_support::write_dump(directory / "dump", sample);
  for (const auto& [key, bytes] : sample.contents) {
    const core::HostTensor tensor =
        read_hdf5_tensor(directory / "dump" / "trace.h5", "/content/" + core::content_name(key));
    CHECK(tensor.bytes == bytes);
    if (key.shape.size() <= H5S_MAX_RANK) CHECK(tensor.shape == key.shape);
    if (core::is_floating(key.dtype) && key.dtype != Dtype::kFloat8E8M0FNU &&
        key.dtype != Dtype::kFloat4E2M1FNX2) {
      CHECK(tensor.dtype == key.dtype);
    }
  }
}

TEST_CASE("what cannot be read says why, and what there is instead") {
  Foreign file;
  file.put("weights/w", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {1}, std::vector<float>{1});
  SUBCASE("no such dataset") {
    const std::string refusal = error_of(ErrorKind::kUsage, [&] { file.read("v"); });
    CHECK(contains(refusal, "v: no such dataset | it holds /weights/w"));
    CHECK(contains(refusal, file.path.string()));
  }
  SUBCASE("a group") {
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { file.read("weights"); }), "no such dataset"));
  }
  SUBCASE("text") {
    const TypeHandle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.get(), 4);
    file.put("t", type.get(), type.get(), {1}, std::vector<char>{'a', 'b', 'c', 'd'});
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { file.read("t"); }), "holds text"));
  }
  SUBCASE("larger than its file") {
    const hsize_t huge = hsize_t{1} << 45U;
    const SpaceHandle space(H5Screate_simple(1, &huge, nullptr));
    REQUIRE(H5Dclose(H5Dcreate2(file.id(),
                                "huge",
                                H5T_IEEE_F32LE,
                                space.get(),
                                H5P_DEFAULT,
                                H5P_DEFAULT,
                                H5P_DEFAULT)) >= 0);
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { file.read("huge"); }), "larger than"));
  }
  SUBCASE("no file") {
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { read_hdf5_tensor("/no/such.h5", "x"); }),
                   "/no/such.h5: no such file"));
  }
  SUBCASE("no HDF5 file") {
    const TempDirectory directory;
    test_support::write_bytes(directory / "x.h5", "hello");
    CHECK(contains(error_of(ErrorKind::kUsage, [&] { read_hdf5_tensor(directory / "x.h5", "x"); }),
                   "is not a whole HDF5 file"));
  }
}

}  // namespace
}  // namespace repro_check::store
