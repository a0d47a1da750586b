// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/element_number.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/tensor/dtype.h"

namespace repro_check::core {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
double distance(Dtype dtype, T a, T b) {
  return element_distance(dtype, bytes_of<T>({a}), bytes_of<T>({b}));
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("elements of every real dtype are numbers") {
  CHECK(element_number(Dtype::kInt8, bytes_of<std::int8_t>({-5})) == -5);
  CHECK(element_number(Dtype::kQInt32, bytes_of<std::int32_t>({-70000})) == -70000);
  CHECK(element_number(Dtype::kUInt64, bytes_of<std::uint64_t>({1ULL << 63U})) == 0x1p63);
  CHECK(element_number(Dtype::kBool, bytes_of<std::uint8_t>({2})) == 1);
  CHECK(element_number(Dtype::kFloat16, bytes_of<std::uint16_t>({0x3C01})) == 1 + 0x1p-10);
  CHECK(element_number(Dtype::kBFloat16, bytes_of<std::uint16_t>({0xBF80})) == -1);
  CHECK(element_number(Dtype::kFloat8E4M3FN, bytes_of<std::uint8_t>({0x7E})) == 448);
  CHECK_FALSE(element_number(Dtype::kComplex64, bytes_of<float>({1, 2})).has_value());
  CHECK_FALSE(element_number(Dtype::kFloat4E2M1FNX2, bytes_of<std::uint8_t>({1})).has_value());
  CHECK_FALSE(element_number(Dtype::kUnknown, {}).has_value());
}

TEST_CASE("distances are exact where double is, and never negative") {
  CHECK(distance<float>(Dtype::kFloat32, 1.5F, -2) == 3.5);
  CHECK(distance<float>(Dtype::kFloat32, kInf, kInf) == 0);
  CHECK(distance<float>(Dtype::kFloat32, kInf, -kInf) == kInf);
  CHECK(std::isnan(distance<float>(Dtype::kFloat32, kNan, 1)));
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  CHECK(distance<std::int64_t>(Dtype::kInt64, kBig, kBig - 1) == 1);
  CHECK(distance<std::int64_t>(Dtype::kInt64,
                               std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()) == 0x1p64);
  CHECK(distance<std::uint64_t>(Dtype::kUInt64, 3, 10) == 7);
  CHECK(element_distance(Dtype::kComplex64, bytes_of<float>({1, 1}), bytes_of<float>({4, 5})) == 5);
}

TEST_CASE("a histogram counts every number once") {
  const auto some = value_histogram(
      Dtype::kFloat32, bytes_of<float>({0, 1, 2, 3, 4, 4, kNan, kInf, -kInf, -0.0F}), 4);
  REQUIRE(some.has_value());
  CHECK(*some == ValueHistogram{0, 4, {2, 1, 1, 3}, 3});
  CHECK(*value_histogram(Dtype::kFloat32, bytes_of<float>({7, 7}), 4) ==
        ValueHistogram{7, 7, {2}, 0});
  CHECK(*value_histogram(Dtype::kFloat32, bytes_of<float>({kNan}), 4) ==
        ValueHistogram{0, 0, {}, 1});
  CHECK(*value_histogram(Dtype::kFloat32, {}, 4) == ValueHistogram{});
  CHECK(*value_histogram(Dtype::kComplex64, bytes_of<float>({0, 4, 1, 3}), 2) ==
        ValueHistogram{0, 4, {2, 2}, 0});
  CHECK_FALSE(value_histogram(Dtype::kFloat4E2M1FNX2, bytes_of<std::uint8_t>({1}), 4).has_value());
  constexpr double kMost = std::numeric_limits<double>::max();
  CHECK(*value_histogram(Dtype::kFloat64, bytes_of<double>({-kMost, 0, kMost}), 2) ==
        ValueHistogram{-kMost, kMost, {1, 2}, 0});
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  const auto tiny = value_histogram(Dtype::kFloat64, bytes_of<double>({0, kLeast}), 2);
  CHECK(tiny->counts[0] + tiny->counts[1] == 2);
}

TEST_CASE("conversion rounds once, and says what it cannot do") {
  const std::vector<std::byte> wide = bytes_of<float>({1, 1 + 0x1p-9F, 1e6F, -0.0F, kNan});
  const std::vector<std::byte> narrow = converted(Dtype::kFloat32, wide, Dtype::kFloat16);
  CHECK(std::vector<std::byte>(narrow.begin(), narrow.begin() + 8) ==
        bytes_of<std::uint16_t>({0x3C00, 0x3C02, 0x7C00, 0x8000}));
  // Every bfloat16 goes to float32 and back without a change.
  std::vector<std::uint16_t> all;
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits)
    all.push_back(static_cast<std::uint16_t>(bits));
  const std::vector<std::byte> there = converted(Dtype::kBFloat16, bytes_of(all), Dtype::kFloat32);
  CHECK(converted(Dtype::kFloat32, there, Dtype::kBFloat16) == bytes_of(all));
  CHECK(converted(Dtype::kInt32, bytes_of<std::int32_t>({3}), Dtype::kFloat32) ==
        bytes_of<float>({3}));
  CHECK(converted(Dtype::kInt64, bytes_of<std::int64_t>({3}), Dtype::kFloat64) ==
        bytes_of<double>({3}));
  CHECK_THROWS_AS(converted(Dtype::kInt64, {}, Dtype::kFloat32), Error);
  CHECK_THROWS_AS(converted(Dtype::kComplex64, {}, Dtype::kFloat32), Error);
  CHECK_THROWS_AS(converted(Dtype::kFloat32, {}, Dtype::kInt8), Error);
  CHECK_THROWS_AS(converted(Dtype::kFloat32, {}, Dtype::kFloat8E8M0FNU), Error);
}

}  // namespace repro_check::core
