// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <doctest/doctest.h>

#include <set>
#include <string_view>

namespace repro_check::core {
namespace {

constexpr int kDtypes = 26;

TEST_CASE("every dtype has a name of its own that reads back, a size and at most one class") {
  std::set<std::string_view> names;
  for (int i = 1; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CAPTURE(dtype_name(dtype));
    CHECK(names.insert(dtype_name(dtype)).second);
    CHECK(parse_dtype(dtype_name(dtype)) == dtype);
    CHECK(element_size(dtype) > 0);
    const int classes = static_cast<int>(is_floating(dtype)) + static_cast<int>(is_complex(dtype)) +
                        static_cast<int>(is_integral(dtype)) +
                        static_cast<int>(is_quantised(dtype));
    CHECK(classes == (dtype == Dtype::kBool ? 0 : 1));
  }
}

TEST_CASE("stored numbers do not move") {
  CHECK(static_cast<int>(Dtype::kBool) == 1);
  CHECK(static_cast<int>(Dtype::kInt64) == 9);
  CHECK(static_cast<int>(Dtype::kFloat32) == 12);
  CHECK(static_cast<int>(Dtype::kComplex128) == 22);
  CHECK(static_cast<int>(Dtype::kQInt32) == 25);
}

TEST_CASE("sizes") {
  CHECK(element_size(Dtype::kUnknown) == 0);
  CHECK(element_size(Dtype::kBool) == 1);
  CHECK(element_size(Dtype::kBFloat16) == 2);
  CHECK(element_size(Dtype::kComplex32) == 4);
  CHECK(element_size(Dtype::kComplex128) == 16);
  CHECK(element_size(static_cast<Dtype>(200)) == 0);
}

TEST_CASE("names people write") {
  CHECK(parse_dtype("torch.bfloat16") == Dtype::kBFloat16);
  CHECK(parse_dtype("half") == Dtype::kFloat16);
  CHECK(parse_dtype("torch.double") == Dtype::kFloat64);
  CHECK(parse_dtype("long") == Dtype::kInt64);
  CHECK(parse_dtype("int") == Dtype::kInt32);
}

TEST_CASE("what is no dtype") {
  for (const std::string_view name :
       {"", "unknown", "torch.", "Float32", "float33", "torch.torch.int8"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_dtype(name));
  }
  CHECK(dtype_name(static_cast<Dtype>(200)) == "unknown");
}

}  // namespace
}  // namespace repro_check::core
