// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/trace_builder.h"

namespace repro_check::comparators::streams_test {
namespace {

using Stream = std::pair<std::uint32_t, std::uint32_t>;  // rank, lane

/// The streams' operators, those of each in order, interleaved as chance has it.
Trace interleaved(std::map<Stream, std::size_t> left, std::mt19937& random) {
  Trace trace("run");
  trace.tensor("x", {1});
  std::map<Stream, std::size_t> made;
  while (!left.empty()) {
    auto next = left.begin();
    std::advance(next, random() % left.size());
    const auto& [rank, lane] = next->first;
    // No two of a stream are alike, so that only their own order pairs them.
    trace.op(
        numbered("aten::op", made[next->first]++), {"x"}, {"x"}, {{"rank", rank}, {"lane", lane}});
    if (--next->second == 0) left.erase(next);
  }
  return trace;
}

TEST_CASE("streams of ranks and lanes are paired each in its order, however they interleave") {
  std::mt19937 random(12);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    std::map<Stream, std::size_t> streams;
    std::set<std::uint32_t> ranks;
    std::size_t count = 0;
    const std::uint32_t kinds = 1 + below(10);
    for (std::uint32_t i = 0; i < 1 + below(15); ++i) {
      const Stream stream(below(kinds) * 0x0100'0193U, below(3));
      const std::size_t operators = 1 + below(8);
      count += operators;
      streams[stream] += operators;
      ranks.insert(stream.first);
    }
    Trace baseline = interleaved(streams, random);
    Trace candidate = interleaved(streams, random);
    const Report report = compare_traces(baseline, candidate);
    CHECK(report.status == Status::kReproducible);
    CHECK(report.alignment.position == count);
    CHECK(std::set(report.ranks.begin(), report.ranks.end()) == ranks);
    CHECK(report.ranks.size() == ranks.size());
  }
}

}  // namespace
}  // namespace repro_check::comparators::streams_test
