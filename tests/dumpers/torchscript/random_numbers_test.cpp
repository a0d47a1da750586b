// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/random_numbers.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace repro_check::torchscript {
namespace {

// These are promised to users: a dump of today is compared with one of next year.
DOCTEST_TEST_CASE("the numbers of a seed never change") {
  RandomNumbers integers(7);
  DOCTEST_CHECK(integers.next() == 0xed183490b02bd5faU);
  DOCTEST_CHECK(integers.next() == 0xeb1b24b7a974960bU);
  RandomNumbers normals(7);
  DOCTEST_CHECK(std::bit_cast<std::uint64_t>(normals.normal()) == 0x3ff27400d94dc4dcU);
  DOCTEST_CHECK(std::bit_cast<std::uint64_t>(normals.normal()) == 0xbf88754d93f2550aU);
}

DOCTEST_TEST_CASE("uniform numbers fill [0, 1) evenly") {
  RandomNumbers random(1);
  std::array<int, 10> bins{};
  for (int i = 0; i < 100000; ++i) {
    const double u = random.uniform();
    DOCTEST_REQUIRE(u >= 0);
    DOCTEST_REQUIRE(u < 1);
    ++bins[static_cast<std::size_t>(u * 10)];
  }
  for (const int count : bins) DOCTEST_CHECK(std::abs(count - 10000) < 500);
}

DOCTEST_TEST_CASE("normal numbers have mean 0, variance 1 and the right tails") {
  RandomNumbers random(2);
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
  }
  DOCTEST_CHECK(std::abs(sum / kCount) < 0.01);
  DOCTEST_CHECK(std::abs(squares / kCount - 1) < 0.02);
  DOCTEST_CHECK(std::abs(beyond_two / double{kCount} - 0.0455) < 0.003);
}

DOCTEST_TEST_CASE("integers below a bound reach every value and none beyond") {
  RandomNumbers random(3);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) ++seen.at(random.below(7));
  for (const int count : seen) DOCTEST_CHECK(std::abs(count - 1000) < 200);
  DOCTEST_CHECK(RandomNumbers(4).below(1) == 0);
}

DOCTEST_TEST_CASE("neighbouring seeds share no numbers") {
  RandomNumbers a(10);
  RandomNumbers b(11);
  RandomNumbers again(10);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t from_a = a.next();
    DOCTEST_CHECK(from_a != b.next());
    DOCTEST_CHECK(from_a == again.next());
  }
}

DOCTEST_TEST_CASE("the logarithm agrees with libm to a few ULP") {
  for (double x = 0x1p-1000; x < 0x1p1000; x *= 1.37) {
    const double expected = std::log(x);
    const double ulp = std::nextafter(std::abs(expected), INFINITY) - std::abs(expected);
    DOCTEST_CHECK(std::abs(portable_log(x) - expected) <= 4 * ulp);
  }
  DOCTEST_CHECK(portable_log(1) == 0);
}

}  // namespace
}  // namespace repro_check::torchscript
