// SPDX-License-Identifier: Apache-2.0
#include "cmd/tensor_stats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "tests/support/element_codec.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;

/// Every bit pattern of a one- or two-byte dtype.
std::vector<std::byte> all_codes(std::size_t size) {
  std::vector<std::byte> bytes;
  const unsigned count = size == 1 ? 256U : 65536U;
  for (unsigned code = 0; code < count; ++code) {
    bytes.push_back(std::byte(code & 0xFFU));
    if (size == 2) bytes.push_back(std::byte(code >> 8U));
  }
  return bytes;
}

}  // namespace

TEST_CASE("statistics of every code of a small dtype") {
  struct Expected {
    Dtype dtype;
    double min;
    double max;
    std::uint64_t subnormals;
  };
  for (const Expected& expected : {Expected{Dtype::kBool, 0, 255, 0},
                                   Expected{Dtype::kUInt8, 0, 255, 0},
                                   Expected{Dtype::kInt8, -128, 127, 0},
                                   Expected{Dtype::kUInt16, 0, 65535, 0},
                                   Expected{Dtype::kInt16, -32768, 32767, 0},
                                   Expected{Dtype::kFloat16, -INFINITY, INFINITY, 2046},
                                   Expected{Dtype::kBFloat16, -INFINITY, INFINITY, 254},
                                   Expected{Dtype::kFloat8E5M2, -INFINITY, INFINITY, 6},
                                   Expected{Dtype::kFloat8E4M3FN, -448, 448, 14},
                                   Expected{Dtype::kFloat8E4M3FNUZ, -240, 240, 14},
                                   Expected{Dtype::kFloat8E5M2FNUZ, -57344, 57344, 6},
                                   Expected{Dtype::kFloat8E8M0FNU, 0x1p-127, 0x1p127, 0}}) {
    CAPTURE(core::dtype_name(expected.dtype));
    const std::vector<std::byte> bytes = all_codes(core::element_size(expected.dtype));
    const std::vector<std::int64_t> shape{
        static_cast<std::int64_t>(bytes.size() / core::element_size(expected.dtype))};
    const core::TensorStats mine = tensor_stats({expected.dtype, shape, bytes});
    CHECK(mine.min == expected.min);
    CHECK(mine.max == expected.max);
    CHECK(mine.subnormals == expected.subnormals);
    // Decoded a second time by code that was written apart from ours.
    const core::TensorStats theirs = test_support::statistics(expected.dtype, bytes);
    CHECK(mine.nans == theirs.nans);
    CHECK(mine.positive_infs == theirs.positive_infs);
    CHECK(mine.negative_infs == theirs.negative_infs);
    CHECK(mine.zeros == theirs.zeros);
    CHECK(mine.l2 == doctest::Approx(theirs.l2));
  }
}

TEST_CASE("mean, deviation and norm run over finite elements") {
  const std::vector<float> values{1.0F, 3.0F, std::nanf(""), INFINITY};
  const std::vector<std::int64_t> shape{4};
  const core::TensorStats stats =
      tensor_stats({Dtype::kFloat32, shape, std::as_bytes(std::span(values))});
  CHECK(stats.mean == 2.0);
  CHECK(stats.std == 1.0);
  CHECK(stats.l2 == doctest::Approx(std::sqrt(10.0)));
  CHECK(stats.max == INFINITY);
  CHECK(stats.nans == 1);
  CHECK(stats.positive_infs == 1);
}

TEST_CASE("an empty tensor has no extremes") {
  const std::vector<std::int64_t> shape{0};
  const core::TensorStats stats = tensor_stats({Dtype::kFloat64, shape, {}});
  CHECK(std::isnan(stats.min));
  CHECK(std::isnan(stats.mean));
  CHECK_THROWS_AS(tensor_stats({Dtype::kUnknown, shape, {}}), core::Error);
}

TEST_CASE("complex elements count as two numbers, float4 pairs are taken apart") {
  const std::vector<float> parts{3.0F, -4.0F};
  const std::vector<std::int64_t> one{1};
  const core::TensorStats complex =
      tensor_stats({Dtype::kComplex64, one, std::as_bytes(std::span(parts))});
  CHECK(complex.min == -4.0);
  CHECK(complex.l2 == 5.0);
  const std::vector<std::byte> pair{std::byte{0x72}};  // 1.0 in the low nibble, 6.0 in the high one
  const core::TensorStats nibbles = tensor_stats({Dtype::kFloat4E2M1FNX2, one, pair});
  CHECK(nibbles.min == 1.0);
  CHECK(nibbles.max == 6.0);
}

}  // namespace repro_check::cmd
