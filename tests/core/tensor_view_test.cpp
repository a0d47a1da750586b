// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "core/error.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {
namespace {

using Shape = std::vector<std::int64_t>;

TEST_CASE("element counts") {
  CHECK(element_count(Shape{}) == 1);
  CHECK(element_count(Shape{2, 3, 4}) == 24);
  CHECK(element_count(Shape{5, 0, 7}) == 0);
  CHECK(element_count(Shape{std::numeric_limits<std::int64_t>::max()}) ==
        std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("impossible shapes") {
  CHECK_THROWS_AS(element_count(Shape{-1}), Error);
  CHECK_THROWS_AS(element_count(Shape{0, -1}), Error);
  CHECK_THROWS_AS(element_count(Shape{std::int64_t{1} << 32, std::int64_t{1} << 31}), Error);
  // A zero does not excuse the rest: strides of such a tensor would overflow.
  CHECK_THROWS_AS(element_count(Shape{std::int64_t{1} << 40, std::int64_t{1} << 40, 0}), Error);
  CHECK_THROWS_AS(element_count(Shape{0, std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
}

}  // namespace
}  // namespace repro_check::core
