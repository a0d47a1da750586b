// SPDX-License-Identifier: Apache-2.0
// The parts that need no LibTorch: reading strided memory, and statistics of every dtype.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "dumpers/capture/detail/strided_bytes.h"
#include "dumpers/capture/detail/tensor_stats.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What a reader would see, element by element.
template <class Element>
std::vector<Element> by_index(const std::vector<Element>& memory,
                              const Sizes& sizes,
                              const Sizes& strides) {
  std::vector<Element> out;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = sizes.size(); d > 0; --d) {
      at += rest % sizes[d - 1] * strides[d - 1];
      rest /= sizes[d - 1];
    }
    out.push_back(memory[static_cast<std::size_t>(at)]);
  }
  return out;
}

template <class Element>
void check_reading(const Sizes& sizes, const Sizes& strides) {
  std::vector<Element> memory(4096);
  std::iota(memory.begin(), memory.end(), Element{0});
  const StridedBytes content(
      reinterpret_cast<const std::byte*>(memory.data()), sizeof(Element), sizes, strides);
  const std::vector<Element> expected = by_index(memory, sizes, strides);
  DOCTEST_REQUIRE(content.count() == expected.size());
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, expected.size() + 1}) {
    std::vector<Element> out(expected.size());
    for (std::size_t begin = 0; begin < out.size(); begin += step) {
      const std::size_t count = std::min(step, out.size() - begin);
      content.copy(begin,
                   std::as_writable_bytes(std::span(out))
                       .subspan(begin * sizeof(Element), count * sizeof(Element)));
    }
    DOCTEST_REQUIRE(out == expected);
  }
}

DOCTEST_TEST_CASE("memory is read in logical order from any place on") {
  const std::vector<std::pair<Sizes, Sizes>> layouts = {{{5, 7}, {7, 1}},
                                                        {{7, 5}, {1, 7}},
                                                        {{3, 4, 5}, {1, 3, 12}},
                                                        {{4, 6}, {0, 1}},
                                                        {{4, 6}, {1, 0}},
                                                        {{2, 3, 4, 5}, {60, 1, 15, 3}},
                                                        {{6}, {3}},
                                                        {{1, 6, 1}, {9, 2, 5}},
                                                        {{3, 1, 4}, {8, 100, 2}},
                                                        {{2, 2, 2}, {0, 0, 0}},
                                                        {{}, {}},
                                                        {{2, 3, 4}, {24, 8, 2}}};
  for (const auto& [sizes, strides] : layouts) {
    check_reading<std::uint8_t>(sizes, strides);
    check_reading<std::uint16_t>(sizes, strides);
    check_reading<std::uint32_t>(sizes, strides);
    check_reading<double>(sizes, strides);
  }
}

DOCTEST_TEST_CASE("contiguous and overlapping are told apart") {
  const std::vector<float> memory(64);
  const auto* first = reinterpret_cast<const std::byte*>(memory.data());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 3}, Sizes{3, 1}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 1, 3}, Sizes{3, 77, 1}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 0}, Sizes{9, 9}).contiguous());
  DOCTEST_CHECK_FALSE(StridedBytes(first, 4, Sizes{2, 3}, Sizes{1, 2}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 3}, Sizes{0, 1}).overlapping());
  DOCTEST_CHECK_FALSE(StridedBytes(first, 4, Sizes{2, 3}, Sizes{1, 2}).overlapping());
}

template <class Element>
core::TensorStats stats_of(core::Dtype dtype, const std::vector<Element>& values) {
  const Sizes sizes = {
      static_cast<std::int64_t>(values.size() * sizeof(Element) / core::element_size(dtype))};
  return compute_stats(dtype,
                       StridedBytes(reinterpret_cast<const std::byte*>(values.data()),
                                    core::element_size(dtype),
                                    sizes,
                                    Sizes{1}));
}

DOCTEST_TEST_CASE("statistics of floating-point values") {
  const auto stats = stats_of<double>(core::Dtype::kFloat64, {1, 2, 3, 4, 0});
  DOCTEST_CHECK(stats.min == 0);
  DOCTEST_CHECK(stats.max == 4);
  DOCTEST_CHECK(stats.mean == doctest::Approx(2));
  DOCTEST_CHECK(stats.std == doctest::Approx(std::sqrt(2.0)));
  DOCTEST_CHECK(stats.l2 == doctest::Approx(std::sqrt(30.0)));
  DOCTEST_CHECK(stats.zeros == 1);

  const auto none = stats_of<float>(core::Dtype::kFloat32, {NAN, INFINITY});
  DOCTEST_CHECK(std::isnan(none.mean));
  DOCTEST_CHECK(none.max == INFINITY);
  DOCTEST_CHECK(none.nans == 1);
  const auto empty = stats_of<float>(core::Dtype::kFloat32, {});
  DOCTEST_CHECK(std::isnan(empty.min));
  DOCTEST_CHECK(std::isnan(empty.l2));
}

DOCTEST_TEST_CASE("small formats are decoded as they are defined") {
  // 1, -2, the largest finite, the smallest subnormal, infinity, NaN.
  const auto half = stats_of<std::uint16_t>(core::Dtype::kFloat16,
                                            {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x7e00});
  DOCTEST_CHECK(half.min == -2);
  DOCTEST_CHECK(half.mean == doctest::Approx((1 - 2 + 65504 + std::ldexp(1.0, -24)) / 4));
  DOCTEST_CHECK(half.positive_infs == 1);
  DOCTEST_CHECK(half.nans == 1);
  DOCTEST_CHECK(half.subnormals == 1);
  const auto brain = stats_of<std::uint16_t>(core::Dtype::kBFloat16, {0x3f80, 0xc0a0, 0xff80});
  DOCTEST_CHECK(brain.max == 1);
  DOCTEST_CHECK(brain.mean == -2);
  DOCTEST_CHECK(brain.negative_infs == 1);
  const auto fn = stats_of<std::uint8_t>(core::Dtype::kFloat8E4M3FN, {0x38, 0x7e, 0x7f, 0xff});
  DOCTEST_CHECK(fn.min == 1);
  DOCTEST_CHECK(fn.max == 448);
  DOCTEST_CHECK(fn.nans == 2);
  const auto e5m2 = stats_of<std::uint8_t>(core::Dtype::kFloat8E5M2, {0x3c, 0x7b, 0x7c, 0x7d});
  DOCTEST_CHECK(e5m2.min == 1);
  DOCTEST_CHECK(e5m2.positive_infs == 1);
  DOCTEST_CHECK(e5m2.nans == 1);
  const auto fnuz = stats_of<std::uint8_t>(core::Dtype::kFloat8E4M3FNUZ, {0x40, 0x7f, 0x80});
  DOCTEST_CHECK(fnuz.min == 1);
  DOCTEST_CHECK(fnuz.max == 240);
  DOCTEST_CHECK(fnuz.nans == 1);
  const auto wide = stats_of<std::uint8_t>(core::Dtype::kFloat8E5M2FNUZ, {0x40, 0x7f, 0x80});
  DOCTEST_CHECK(wide.min == 1);
  DOCTEST_CHECK(wide.max == 57344);
  const auto scale = stats_of<std::uint8_t>(core::Dtype::kFloat8E8M0FNU, {127, 128, 255});
  DOCTEST_CHECK(scale.min == 1);
  DOCTEST_CHECK(scale.max == 2);
  DOCTEST_CHECK(scale.nans == 1);
  const auto pairs = stats_of<std::uint8_t>(core::Dtype::kFloat4E2M1FNX2, {0x72, 0x1f});
  DOCTEST_CHECK(pairs.min == -6);
  DOCTEST_CHECK(pairs.max == 6);
  DOCTEST_CHECK(pairs.subnormals == 1);
}

DOCTEST_TEST_CASE("integers, booleans and complex numbers") {
  const auto ints = stats_of<std::int64_t>(core::Dtype::kInt64, {-5, 0, 5});
  DOCTEST_CHECK(ints.min == -5);
  DOCTEST_CHECK(ints.zeros == 1);
  const auto bools = stats_of<std::uint8_t>(core::Dtype::kBool, {1, 1, 0, 1});
  DOCTEST_CHECK(bools.mean == 0.75);
  const auto complex = stats_of<float>(core::Dtype::kComplex64, {3, 4, 0, 0});
  DOCTEST_CHECK(complex.l2 == 5);
  DOCTEST_CHECK(complex.zeros == 2);
  DOCTEST_CHECK(stats_of<std::uint64_t>(core::Dtype::kUInt64, {~std::uint64_t{0}}).max > 1e19);
}

}  // namespace
}  // namespace repro_check::capture
