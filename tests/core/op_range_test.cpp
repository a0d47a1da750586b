// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "core/trace/run_manifest.h"

namespace repro_check::core {
namespace {

constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("ranges unite where they overlap or touch") {
  CHECK(united({}).empty());
  CHECK(united({{4, 9}, {0, 2}}) == OpRanges{{0, 2}, {4, 9}});
  CHECK(united({{4, 9}, {0, 3}}) == OpRanges{{0, 9}});
  CHECK(united({{4, 9}, {5, 6}, {9, 12}}) == OpRanges{{4, 12}});
  CHECK(united({{7, 7}, {7, 7}}) == OpRanges{{7, 7}});
  CHECK(united({{0, kLast}, {kLast, kLast}}) == OpRanges{{0, kLast}});
}

TEST_CASE("an index is in a range or in none") {
  const OpRanges ranges{{2, 4}, {8, 8}};
  for (const std::uint64_t index : {2U, 3U, 4U, 8U}) CHECK(contains(ranges, index));
  for (const std::uint64_t index : {0U, 1U, 5U, 7U, 9U}) CHECK_FALSE(contains(ranges, index));
  CHECK_FALSE(contains({}, 0));
}

TEST_CASE("ranges read as a person would say them") {
  CHECK(describe(OpRanges{}).empty());
  CHECK(describe(OpRanges{{3, 3}}) == "op 3");
  CHECK(describe(OpRanges{{3, 11}, {40, 40}}) == "op 3 to 11 and op 40");
  CHECK(describe(OpRanges{{0, 1}, {3, 11}, {40, 40}}) == "op 0 to 1, op 3 to 11 and op 40");
}

}  // namespace
}  // namespace repro_check::core
