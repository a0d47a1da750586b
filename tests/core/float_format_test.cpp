// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/tensor/dtype.h"

namespace repro_check::core {
namespace {

TEST_CASE("every code of the narrow floats survives the way through a double") {
  for (const Dtype dtype : {Dtype::kFloat16,
                            Dtype::kBFloat16,
                            Dtype::kFloat8E4M3FN,
                            Dtype::kFloat8E5M2,
                            Dtype::kFloat8E4M3FNUZ,
                            Dtype::kFloat8E5M2FNUZ}) {
    const std::uint64_t codes = element_size(dtype) == 1 ? 0x100 : 0x10000;
    for (std::uint64_t code = 0; code < codes; ++code) {
      const double value = decode_float(dtype, code);
      const std::uint64_t back = encode_float(dtype, value);
      if (std::isnan(value) ? !std::isnan(decode_float(dtype, back)) : back != code) {
        FAIL(dtype_name(dtype) << " " << code << " came back as " << back);
      }
    }
  }
}

TEST_CASE("what lies between two elements goes to the nearest, ties to even") {
  CHECK(encode_float(Dtype::kBFloat16, 1.00390625) == 0x3F80);  // halfway to 3F81
  CHECK(encode_float(Dtype::kBFloat16, 1.01171875) == 0x3F82);  // halfway from 3F81
  CHECK(encode_float(Dtype::kBFloat16, -1.0039063) == 0xBF81);  // just above halfway
  CHECK(encode_float(Dtype::kFloat16, 0x1p-25) == 0);           // halfway to the least subnormal
  CHECK(encode_float(Dtype::kFloat16, 0x1.8p-24) == 2);
  CHECK(encode_float(Dtype::kFloat32, 1 + 0x1p-24) == 0x3F80'0000);
  CHECK(encode_float(Dtype::kFloat64, -0.0) == 0x8000'0000'0000'0000);
}

TEST_CASE("what is too large is Inf, or NaN where there is none") {
  CHECK(encode_float(Dtype::kFloat16, 65519.0) == 0x7BFF);
  CHECK(encode_float(Dtype::kFloat16, 65520.0) == 0x7C00);
  CHECK(encode_float(Dtype::kFloat16, -std::numeric_limits<double>::infinity()) == 0xFC00);
  CHECK(encode_float(Dtype::kFloat8E4M3FN, 464.0) == 0x7E);
  CHECK(encode_float(Dtype::kFloat8E4M3FN, 465.0) == 0x7F);
  CHECK(encode_float(Dtype::kFloat8E5M2FNUZ, 1e9) == 0x80);
  CHECK(encode_float(Dtype::kFloat8E5M2FNUZ, -0.0) == 0);
}

}  // namespace
}  // namespace repro_check::core
