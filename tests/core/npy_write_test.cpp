// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "tests/support/temp_directory.h"

namespace repro_check::core {
namespace {

using test_support::TempDirectory;

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

ErrorKind kind_of_failure(const std::filesystem::path& file, TensorView tensor) {
  try {
    write_npy(file, tensor);
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::kInternal;
}

TEST_CASE("the header is NumPy's, padded to 64 bytes") {
  const TempDirectory directory;
  const auto file = directory / "x.npy";
  const HostTensor tensor{Dtype::kInt16, {3}, counted(6)};
  write_npy(file, tensor.view());
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  REQUIRE(text.size() == 128 + 6);
  CHECK(text.substr(0, 6) == "\x93NUMPY");
  CHECK(text.substr(6, 4) == std::string("\x01\x00\x76\x00", 4));
  CHECK(text.substr(10).starts_with("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }"));
  CHECK(text[127] == '\n');
}

TEST_CASE("every dtype that NumPy has reads back bit for bit") {
  const TempDirectory directory;
  const auto file = directory / "x.npy";
  const std::vector<std::vector<std::int64_t>> shapes{
      {}, {1}, {0}, {2, 3}, {2, 0, 3}, {1, 2, 1, 2}};
  int written = 0;
  for (int i = 1; i <= static_cast<int>(Dtype::kQInt32); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CAPTURE(dtype_name(dtype));
    for (const auto& shape : shapes) {
      HostTensor tensor{dtype, shape, {}};
      tensor.bytes = counted(static_cast<std::size_t>(element_count(shape)) * element_size(dtype));
      if (dtype == Dtype::kBool) {
        for (auto& value : tensor.bytes) value &= std::byte{1};
      }
      if (is_quantised(dtype) || dtype == Dtype::kBFloat16 || dtype == Dtype::kComplex32 ||
          (dtype >= Dtype::kFloat8E4M3FN && dtype <= Dtype::kFloat4E2M1FNX2)) {
        CHECK(kind_of_failure(file, tensor.view()) == ErrorKind::kUsage);
        continue;
      }
      write_npy(file, tensor.view());
      const HostTensor back = read_npy(file);
      CHECK(back.dtype == dtype);
      CHECK(back.shape == shape);
      CHECK(back.bytes == tensor.bytes);
      ++written;
    }
  }
  CHECK(written == 14 * 6);
}

TEST_CASE(
    "a content that does not fill its shape is a defect, a directory that is not there is not") {
  const TempDirectory directory;
  const HostTensor wrong{Dtype::kFloat32, {2}, counted(7)};
  CHECK(kind_of_failure(directory / "x.npy", wrong.view()) == ErrorKind::kInternal);
  const HostTensor right{Dtype::kFloat32, {2}, counted(8)};
  CHECK(kind_of_failure(directory.path() / "no" / "x.npy", right.view()) == ErrorKind::kIo);
  CHECK_FALSE(std::filesystem::exists(directory / "x.npy"));
}

}  // namespace
}  // namespace repro_check::core
