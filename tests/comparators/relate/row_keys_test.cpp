// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/row_keys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace repro_check::comparators {

namespace {

template <std::size_t kCount>
std::vector<Rows> rows(const std::vector<std::int64_t>& shape,
                       const std::array<float, kCount>& values) {
  return rows_of({core::Dtype::kFloat32, shape, std::as_bytes(std::span(values))});
}

}  // namespace

TEST_CASE("rows along every axis have keys that do not depend on the order inside a row") {
  const auto plain = rows<6>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto turned = rows<6>({3, 2}, {1, 4, 2, 5, 3, 6});
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].width == 3);
  CHECK(plain[0].keys == turned[1].keys);
  CHECK(plain[1].keys == turned[0].keys);
  CHECK(plain[0].keys[0] != plain[0].keys[1]);
  const auto moved = rows<6>({2, 3}, {3, 1, 2, 6, 4, 5});
  CHECK(moved[0].keys == plain[0].keys);
  CHECK(moved[1].keys != plain[1].keys);
}

TEST_CASE("from three dimensions on the leading axes are one as well") {
  const auto stacked = rows<8>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  REQUIRE(stacked.size() == 4);
  CHECK(stacked[3].axis == kLeadingAxes);
  CHECK(stacked[3].keys == rows<8>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})[0].keys);
  CHECK(stacked[0].keys == rows<8>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})[0].keys);
  CHECK(stacked[2].keys == rows<8>({2, 4}, {1, 3, 5, 7, 2, 4, 6, 8})[0].keys);
}

TEST_CASE("rows of one value are marked; bits count, not numbers") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto some = rows<8>({4, 2}, {0, 0, 1, 0, nan, nan, 0, -0.0F});
  CHECK(some[0].constant == std::vector<bool>{true, false, true, false});
  CHECK(rows<2>({2}, {1, 1})[0].constant == std::vector<bool>{false, false});
  CHECK(rows_of({core::Dtype::kFloat32, {}, {}}).empty());
  const std::vector<std::int64_t> empty{0, 3};
  CHECK(rows_of({core::Dtype::kFloat32, empty, {}}).empty());
}

}  // namespace repro_check::comparators
