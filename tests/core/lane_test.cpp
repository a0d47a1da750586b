// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <set>

#include "core/trace/op_record.h"

namespace repro_check::core {
namespace {

TEST_CASE("a lane is the path of its creation") {
  const std::uint32_t first = forked_lane(kMainLane, 0);
  CHECK(lane_text(kMainLane) == "main");
  CHECK(lane_text(first) == "main.0");
  CHECK(lane_text(forked_lane(first, 2)) == "main.0.2");
  CHECK(lane_text(forked_lane(forked_lane(first, 2), 254)) == "main.0.2.254");
  CHECK(lane_text(pool_lane(first)) == "pool of main.0");
  CHECK(is_unordered(pool_lane(first)));
  CHECK_FALSE(is_unordered(first));
  CHECK(lane_text(worker_lane(0)) == "worker 0");
  CHECK(lane_text(worker_lane(300)) == "worker 300");
  CHECK(is_of_worker(worker_lane(65'533)));
  CHECK_FALSE(is_unordered(worker_lane(100'000)));
  for (const std::uint32_t other :
       {kMainLane, first, forked_lane(first, 2), pool_lane(kMainLane)}) {
    CHECK_FALSE(is_of_worker(other));
  }
  CHECK(lane_text(forked_lane(worker_lane(1), 0)).starts_with("fork "));
}

TEST_CASE("lanes that the number cannot spell keep one of their own") {
  std::set<std::uint32_t> lanes{kMainLane};
  std::uint32_t deep = kMainLane;
  for (int level = 0; level < 100; ++level) {
    deep = forked_lane(deep, 0);
    CHECK(lanes.insert(deep).second);
    CHECK_FALSE(is_unordered(deep));
  }
  for (std::uint32_t ordinal = 1; ordinal < 17'000; ++ordinal) {
    CHECK(lanes.insert(forked_lane(kMainLane, ordinal)).second);
  }
  CHECK(lane_text(deep).starts_with("fork "));
  CHECK(lane_text(forked_lane(kMainLane, 16'383)).starts_with("fork "));
  CHECK(lane_text(forked_lane(kMainLane, 16'382)) == "main.16382");
}

}  // namespace
}  // namespace repro_check::core
