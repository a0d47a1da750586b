// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_stats.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/tensor/stats_block.h"
#include "tests/support/element_codec.h"

namespace repro_check::core {
namespace {

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

template <class Element>
TensorStats stats_of(Dtype dtype, const std::vector<Element>& values) {
  return tensor_stats(dtype, std::as_bytes(std::span(values)));
}

/// Numbers of all kinds: ordinary ones, zeros, subnormal ones, infinities and NaN.
template <class Number>
std::vector<Number> all_kinds(std::size_t count, double share_odd, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> ordinary(3.0, 1e3);
  std::uniform_real_distribution<double> pick(0, 1);
  constexpr auto kInfinity = std::numeric_limits<Number>::infinity();
  const std::array<Number, 6> odd{kInfinity,
                                  -kInfinity,
                                  std::numeric_limits<Number>::quiet_NaN(),
                                  std::numeric_limits<Number>::denorm_min(),
                                  Number{0},
                                  std::numeric_limits<Number>::max()};
  std::vector<Number> values(count);
  for (Number& value : values) {
    value = pick(random) < share_odd ? odd[random() % odd.size()]
                                     : static_cast<Number>(ordinary(random));
  }
  return values;
}

bool same_bits(const detail::BlockStats& left, const detail::BlockStats& right) {
  return std::memcmp(&left, &right, sizeof left) == 0;
}

}  // namespace

TEST_CASE("every instruction set gives statistics of the same bits") {
  for (const std::size_t count : {0UL, 1UL, 15UL, 16UL, 17UL, 100UL, 2047UL, 2048UL}) {
    for (const double share : {0.0, 0.1, 1.0}) {
      CAPTURE(count);
      CAPTURE(share);
      const auto narrow = all_kinds<float>(count, share, 1);
      const auto wide = all_kinds<double>(count, share, 2);
      const detail::StatsLoops plain = detail::portable_stats_loops();
      for (const detail::StatsLoops& loops : detail::runnable_stats_loops()) {
        const float normal = std::numeric_limits<float>::min();
        CHECK(same_bits(loops.narrow(narrow.data(), count, normal),
                        plain.narrow(narrow.data(), count, normal)));
        CHECK(same_bits(loops.wide(wide.data(), count, 1e-300),
                        plain.wide(wide.data(), count, 1e-300)));
      }
    }
  }
}

TEST_CASE("every instruction set gives sums over rows of the same bits") {
  std::mt19937 random(7);
  for (const std::size_t rows : {1UL, 2UL, 16UL}) {
    const auto values = all_kinds<float>(rows * detail::kRowElements, 0, 3);
    std::vector<double> signs(rows);
    for (double& sign : signs) sign = random() % 2 == 0 ? 1 : -1;
    std::vector<double> squares(detail::kRowElements, 0.1);
    std::vector<double> sums(detail::kRowElements, 0.1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      squares[i % detail::kRowElements] += double{values[i]} * double{values[i]};
      sums[i % detail::kRowElements] += signs[i / detail::kRowElements] * double{values[i]};
    }
    for (const detail::StatsLoops& loops : detail::runnable_stats_loops()) {
      std::vector<double> made(detail::kRowElements, 0.1);
      loops.add_squares(values.data(), rows, made.data());
      CHECK(made == squares);
      made.assign(made.size(), 0.1);
      loops.add_signed(values.data(), signs.data(), rows, made.data());
      CHECK(made == sums);
    }
  }
}

TEST_CASE("one walk gives the digest and the statistics that two give") {
  std::vector<std::byte> bytes(70'001 * 16);
  std::mt19937 random(5);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int code = 1; code <= static_cast<int>(Dtype::kQInt32); ++code) {
    const auto dtype = static_cast<Dtype>(code);
    for (const std::size_t elements : {0UL, 1UL, 4096UL, 60'001UL}) {
      CAPTURE(dtype_name(dtype));
      CAPTURE(elements);
      const std::span<const std::byte> leaf =
          std::span(bytes).first(elements * element_size(dtype));
      const LeafSummary summary = summarise_leaf(dtype, leaf);
      CHECK(summary.digest == digest_leaf(leaf));
      const TensorStats one_walk = stats_of_leaves({&summary.stats, 1});
      const TensorStats two_walks = tensor_stats(dtype, leaf);
      // By their bits: of no elements all is NaN.
      CHECK(std::memcmp(&one_walk, &two_walks, sizeof one_walk) == 0);
    }
  }
}

TEST_CASE("statistics of many elements are those of one pass in higher precision") {
  const auto values = all_kinds<float>(700'001, 0.01, 3);
  std::vector<long double> finite;
  TensorStats expected;
  for (const float value : values) {
    if (std::isnan(value)) ++expected.nans;
    if (std::isinf(value)) ++(value > 0 ? expected.positive_infs : expected.negative_infs);
    if (value == 0) ++expected.zeros;
    if (std::fpclassify(value) == FP_SUBNORMAL) ++expected.subnormals;
    if (std::isfinite(value)) finite.push_back(static_cast<long double>(value));
  }
  const auto count = static_cast<long double>(finite.size());
  const long double mean = std::accumulate(finite.begin(), finite.end(), 0.0L) / count;
  long double squares = 0;
  long double norm = 0;
  for (const long double value : finite) {
    squares += (value - mean) * (value - mean);
    norm += value * value;
  }
  const TensorStats stats = stats_of(Dtype::kFloat32, values);
  CHECK(stats.nans == expected.nans);
  CHECK(stats.positive_infs == expected.positive_infs);
  CHECK(stats.negative_infs == expected.negative_infs);
  CHECK(stats.zeros == expected.zeros);
  CHECK(stats.subnormals == expected.subnormals);
  CHECK(stats.mean == doctest::Approx(static_cast<double>(mean)).epsilon(1e-12));
  CHECK(stats.std ==
        doctest::Approx(static_cast<double>(std::sqrt(squares / count))).epsilon(1e-12));
  CHECK(stats.l2 == doctest::Approx(static_cast<double>(std::sqrt(norm))).epsilon(1e-12));
}

TEST_CASE("a spread far below the mean is not lost") {
  std::vector<double> values;
  for (int i = 0; i < 100'000; ++i) values.push_back(1e9 + (i % 2 == 0 ? 1e-3 : -1e-3));
  CHECK(stats_of(Dtype::kFloat64, values).std == doctest::Approx(1e-3).epsilon(1e-4));
}

TEST_CASE("the mean of the largest numbers is finite") {
  const std::vector<double> values(5000, std::numeric_limits<double>::lowest());
  CHECK(stats_of(Dtype::kFloat64, values).mean ==
        doctest::Approx(std::numeric_limits<double>::lowest()));
}

TEST_CASE("leaves put together in order are the whole") {
  const auto values = all_kinds<float>(3 * kDigestChunk / 4 + 77, 0.2, 4);
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<LeafStats> leaves;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kDigestChunk) {
    leaves.push_back(leaf_stats(
        Dtype::kFloat32, bytes.subspan(begin, std::min(kDigestChunk, bytes.size() - begin))));
  }
  CHECK(stats_of_leaves(leaves) == tensor_stats(Dtype::kFloat32, bytes));
}

TEST_CASE("memory that is not aligned gives the same statistics") {
  const auto values = all_kinds<double>(5000, 0.1, 5);
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  CHECK(tensor_stats(Dtype::kFloat64, std::span(shifted).subspan(1)) ==
        tensor_stats(Dtype::kFloat64, bytes));
}

#if defined(__SSE2__)
TEST_CASE("what the program does with subnormal numbers does not reach the statistics") {
  const std::vector<float> values(100, std::numeric_limits<float>::denorm_min());
  constexpr unsigned kFlushBoth = 0x8040;
  const unsigned found = _mm_getcsr();
  _mm_setcsr(found | kFlushBoth);
  const TensorStats stats = stats_of(Dtype::kFloat32, values);
  const unsigned left = _mm_getcsr();
  _mm_setcsr(found);
  CHECK(left == (found | kFlushBoth));
  CHECK(stats.subnormals == 100);
  CHECK(stats.mean == 0x1p-149);
}
#endif

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
    CAPTURE(dtype_name(expected.dtype));
    const std::vector<std::byte> bytes = all_codes(element_size(expected.dtype));
    const std::vector<std::int64_t> shape{
        static_cast<std::int64_t>(bytes.size() / element_size(expected.dtype))};
    const TensorStats mine = tensor_stats(expected.dtype, bytes);
    CHECK(mine.min == expected.min);
    CHECK(mine.max == expected.max);
    CHECK(mine.subnormals == expected.subnormals);
    // Decoded a second time by code that was written apart from ours.
    const TensorStats theirs = test_support::statistics(expected.dtype, bytes);
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
  const TensorStats stats = tensor_stats(Dtype::kFloat32, std::as_bytes(std::span(values)));
  CHECK(stats.mean == 2.0);
  CHECK(stats.std == 1.0);
  CHECK(stats.l2 == doctest::Approx(std::sqrt(10.0)));
  CHECK(stats.max == INFINITY);
  CHECK(stats.nans == 1);
  CHECK(stats.positive_infs == 1);
}

TEST_CASE("an empty tensor has no extremes") {
  const std::vector<std::int64_t> shape{0};
  const TensorStats stats = tensor_stats(Dtype::kFloat64, {});
  CHECK(std::isnan(stats.min));
  CHECK(std::isnan(stats.mean));
  CHECK_THROWS_AS(tensor_stats(Dtype::kUnknown, {}), Error);
}

TEST_CASE("complex elements count as two numbers, float4 pairs are taken apart") {
  const std::vector<float> parts{3.0F, -4.0F};
  const std::vector<std::int64_t> one{1};
  const TensorStats complex = tensor_stats(Dtype::kComplex64, std::as_bytes(std::span(parts)));
  CHECK(complex.min == -4.0);
  CHECK(complex.l2 == 5.0);
  const std::vector<std::byte> pair{std::byte{0x72}};  // 1.0 in the low nibble, 6.0 in the high one
  const TensorStats nibbles = tensor_stats(Dtype::kFloat4E2M1FNX2, pair);
  CHECK(nibbles.min == 1.0);
  CHECK(nibbles.max == 6.0);
}

TEST_CASE("statistics of floating-point values") {
  const auto stats = stats_of<double>(core::Dtype::kFloat64, {1, 2, 3, 4, 0});
  CHECK(stats.min == 0);
  CHECK(stats.max == 4);
  CHECK(stats.mean == doctest::Approx(2));
  CHECK(stats.std == doctest::Approx(std::sqrt(2.0)));
  CHECK(stats.l2 == doctest::Approx(std::sqrt(30.0)));
  CHECK(stats.zeros == 1);

  const auto none = stats_of<float>(core::Dtype::kFloat32, {NAN, INFINITY});
  CHECK(std::isnan(none.mean));
  CHECK(none.max == INFINITY);
  CHECK(none.nans == 1);
  const auto empty = stats_of<float>(core::Dtype::kFloat32, {});
  CHECK(std::isnan(empty.min));
  CHECK(std::isnan(empty.l2));
}

TEST_CASE("small formats are decoded as they are defined") {
  // 1, -2, the largest finite, the smallest subnormal, infinity, NaN.
  const auto half = stats_of<std::uint16_t>(core::Dtype::kFloat16,
                                            {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x7e00});
  CHECK(half.min == -2);
  CHECK(half.mean == doctest::Approx((1 - 2 + 65504 + std::ldexp(1.0, -24)) / 4));
  CHECK(half.positive_infs == 1);
  CHECK(half.nans == 1);
  CHECK(half.subnormals == 1);
  const auto brain = stats_of<std::uint16_t>(core::Dtype::kBFloat16, {0x3f80, 0xc0a0, 0xff80});
  CHECK(brain.max == 1);
  CHECK(brain.mean == -2);
  CHECK(brain.negative_infs == 1);
  const auto fn = stats_of<std::uint8_t>(core::Dtype::kFloat8E4M3FN, {0x38, 0x7e, 0x7f, 0xff});
  CHECK(fn.min == 1);
  CHECK(fn.max == 448);
  CHECK(fn.nans == 2);
  const auto e5m2 = stats_of<std::uint8_t>(core::Dtype::kFloat8E5M2, {0x3c, 0x7b, 0x7c, 0x7d});
  CHECK(e5m2.min == 1);
  CHECK(e5m2.positive_infs == 1);
  CHECK(e5m2.nans == 1);
  const auto fnuz = stats_of<std::uint8_t>(core::Dtype::kFloat8E4M3FNUZ, {0x40, 0x7f, 0x80});
  CHECK(fnuz.min == 1);
  CHECK(fnuz.max == 240);
  CHECK(fnuz.nans == 1);
  const auto wide = stats_of<std::uint8_t>(core::Dtype::kFloat8E5M2FNUZ, {0x40, 0x7f, 0x80});
  CHECK(wide.min == 1);
  CHECK(wide.max == 57344);
  const auto scale = stats_of<std::uint8_t>(core::Dtype::kFloat8E8M0FNU, {127, 128, 255});
  CHECK(scale.min == 1);
  CHECK(scale.max == 2);
  CHECK(scale.nans == 1);
  const auto pairs = stats_of<std::uint8_t>(core::Dtype::kFloat4E2M1FNX2, {0x72, 0x1f});
  CHECK(pairs.min == -6);
  CHECK(pairs.max == 6);
  CHECK(pairs.subnormals == 1);
}

TEST_CASE("integers, booleans and complex numbers") {
  const auto ints = stats_of<std::int64_t>(core::Dtype::kInt64, {-5, 0, 5});
  CHECK(ints.min == -5);
  CHECK(ints.zeros == 1);
  const auto bools = stats_of<std::uint8_t>(core::Dtype::kBool, {1, 1, 0, 1});
  CHECK(bools.mean == 0.75);
  const auto complex = stats_of<float>(core::Dtype::kComplex64, {3, 4, 0, 0});
  CHECK(complex.l2 == 5);
  CHECK(complex.zeros == 2);
  CHECK(stats_of<std::uint64_t>(core::Dtype::kUInt64, {~std::uint64_t{0}}).max > 1e19);
}

}  // namespace repro_check::core
