// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/streams.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace repro_check::comparators::detail {
namespace {

TEST_CASE("no records are no streams") {
  Streams streams;
  streams.finish();
  CHECK(streams.size() == 0);
  CHECK(streams.ranks().empty());
}

TEST_CASE("op indices by rank and lane, as a map has them") {
  std::mt19937 random(12);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    Streams streams;
    std::map<StreamId, std::vector<std::uint32_t>> expected;
    std::set<std::uint32_t> ranks;
    const std::uint32_t kinds = 1 + below(40);
    const std::uint32_t count = below(2000);
    for (std::uint32_t op = 0; op < count; ++op) {
      core::OpRecord head;
      head.rank = below(kinds) * 0x0100'0193U;
      head.lane = below(3);
      const bool left_out = below(5) == 0;
      streams.add(head, left_out);
      if (left_out) continue;
      expected[{head.rank, head.lane}].push_back(op);
      ranks.insert(head.rank);
    }
    streams.finish();
    REQUIRE(streams.size() == expected.size());
    std::size_t stream = 0;
    for (const auto& [id, ops] : expected) {
      CHECK(streams.id(stream) == id);
      const auto found = streams.ops(stream++);
      CHECK(std::vector(found.begin(), found.end()) == ops);
    }
    const auto found = streams.ranks();
    CHECK(std::set(found.begin(), found.end()) == ranks);
    CHECK(found.size() == ranks.size());
  }
}

}  // namespace
}  // namespace repro_check::comparators::detail
