// SPDX-License-Identifier: Apache-2.0
// Random traces with random edits: what is paired is the same operator, in order, and as much as
// can be.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "tests/support/memory_source.h"

namespace repro_check::comparators::align_property_test {
namespace {

using test_support::DumpFixture;
using test_support::MemorySource;

/// The same numbers with every library: distributions are not portable, the engine is.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(engine_() % limit); }
  bool chance(std::uint32_t one_in) { return below(one_in) == 0; }

 private:
  std::mt19937 engine_;
};

core::OpRecord random_call(Random& random, std::uint32_t names) {
  static constexpr std::array kOverloads{"", "Tensor", "Scalar"};
  core::OpRecord record;
  record.op = std::make_shared<core::OperatorInfo>(
      core::OperatorInfo{"aten::op" + std::to_string(random.below(names)),
                         kOverloads.at(random.below(random.chance(4) ? 3 : 1)),
                         false});
  auto site = std::make_shared<core::CallSite>();
  site->module_path = "layer." + std::to_string(random.below(names));
  if (!random.chance(10)) record.site = std::move(site);
  record.lane = random.chance(8) ? 1 : 0;
  record.rank = random.chance(8) ? 1 : 0;
  record.phase = random.chance(8) ? core::Phase::kBackward : core::Phase::kForward;
  record.step = random.chance(8) ? 1 : 0;
  return record;
}

std::vector<core::OpRecord> random_trace(Random& random) {
  const std::uint32_t names = 1 + random.below(6);
  std::vector<core::OpRecord> body;
  for (std::uint32_t i = 1 + random.below(8); i > 0; --i) {
    body.push_back(random_call(random, names));
  }
  std::vector<core::OpRecord> trace;
  const std::uint32_t trips = 1 + random.below(6);
  for (std::uint32_t trip = 0; trip < trips; ++trip) {
    trace.insert(trace.end(), body.begin(), body.end());
    if (random.chance(3)) trace.push_back(random_call(random, names));
  }
  return trace;
}

/// Takes out, puts in, replaces, repeats and moves calls.
void edit(Random& random, std::vector<core::OpRecord>& trace) {
  for (std::uint32_t edits = random.below(6); edits > 0 && !trace.empty(); --edits) {
    const auto size = static_cast<std::uint32_t>(trace.size());
    const auto at = trace.begin() + random.below(size);
    const auto other = trace.begin() + random.below(size);
    switch (random.below(5)) {
      case 0:
        trace.erase(std::min(at, other), std::max(at, other));
        break;
      case 1:
        trace.insert(at, random_call(random, 6));
        break;
      case 2:
        *at = random_call(random, 6);
        break;
      case 3: {
        const std::vector<core::OpRecord> again(std::min(at, other), std::max(at, other));
        trace.insert(trace.end() - (trace.end() - std::max(at, other)), again.begin(), again.end());
        break;
      }
      default:
        std::iter_swap(at, other);
    }
    if (trace.size() > 150) trace.resize(150);
  }
}

MemorySource source_of(std::vector<core::OpRecord> ops) {
  DumpFixture fixture;
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].index = i;
  fixture.ops = std::move(ops);
  return MemorySource(std::move(fixture));
}

using Stream = std::pair<std::uint32_t, std::uint32_t>;

Stream stream_of(const core::OpRecord& record) { return {record.rank, record.lane}; }

std::string module_of(const core::OpRecord& record) {
  return record.site ? record.site->module_path : std::string();
}

bool same_call(const core::OpRecord& left, const core::OpRecord& right) {
  return stream_of(left) == stream_of(right) && left.step == right.step &&
         left.phase == right.phase && left.depth == right.depth &&
         module_of(left) == module_of(right) && left.op->full_name() == right.op->full_name();
}

std::vector<core::OpRecord> in_stream(const std::vector<core::OpRecord>& trace, Stream stream) {
  std::vector<core::OpRecord> picked;
  std::ranges::copy_if(trace, std::back_inserter(picked), [&](const core::OpRecord& record) {
    return stream_of(record) == stream;
  });
  return picked;
}

/// The textbook table.
std::uint64_t longest_common(const std::vector<core::OpRecord>& left,
                             const std::vector<core::OpRecord>& right) {
  std::vector<std::vector<std::uint64_t>> table(left.size() + 1,
                                                std::vector<std::uint64_t>(right.size() + 1, 0));
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      table[i][j] = same_call(left[i - 1], right[j - 1])
                        ? table[i - 1][j - 1] + 1
                        : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  return table.back().back();
}

void check_pairs(const std::vector<core::OpRecord>& baseline,
                 const std::vector<core::OpRecord>& candidate,
                 const Pairing& pairing) {
  std::map<Stream, std::int64_t> last;
  std::uint64_t matched = 0;
  for (std::uint32_t i = 0; i < baseline.size(); ++i) {
    const std::uint32_t other = pairing.candidate_of[i];
    CHECK((other == kUnmatched) == (pairing.how[i] == MatchedBy::kNone));
    if (other == kUnmatched) continue;
    ++matched;
    REQUIRE(other < candidate.size());
    CHECK(pairing.baseline_of[other] == i);
    CHECK(same_call(baseline[i], candidate[other]));
    auto& before = last.try_emplace(stream_of(baseline[i]), -1).first->second;
    CHECK(static_cast<std::int64_t>(other) > before);
    before = other;
  }
  CHECK(matched == pairing.matched);
  const auto is_said_how = [](MatchedBy by) { return by != MatchedBy::kNone; };
  CHECK(static_cast<std::uint64_t>(std::ranges::count_if(pairing.how, is_said_how)) == matched);
  const auto back =
      std::ranges::count_if(pairing.baseline_of, [](std::uint32_t op) { return op != kUnmatched; });
  CHECK(static_cast<std::uint64_t>(back) == matched);
  CHECK(pairing.summary.work <= pairing.summary.work_limit);
  for (const OpPair& moved : pairing.moved) {
    CHECK(pairing.candidate_of[moved.baseline] == kUnmatched);
    CHECK(pairing.baseline_of[moved.candidate] == kUnmatched);
    CHECK(same_call(baseline[moved.baseline], candidate[moved.candidate]));
  }
}

/// A random trace, and what random edits make of it.
struct EditedTrace {
  explicit EditedTrace(std::uint32_t seed) : EditedTrace(Random(seed)) {}

  std::vector<core::OpRecord> baseline;
  std::vector<core::OpRecord> candidate;
  MemorySource left;
  MemorySource right;

 private:
  explicit EditedTrace(Random random)
      : baseline(random_trace(random)),
        candidate(edited(random, baseline)),
        left(source_of(baseline)),
        right(source_of(candidate)) {}

  static std::vector<core::OpRecord> edited(Random& random, std::vector<core::OpRecord> trace) {
    edit(random, trace);
    return trace;
  }
};

TEST_CASE("random edits: the same operators, in order, as many as can be") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const EditedTrace traces(seed);
    const std::vector<core::OpRecord>& baseline = traces.baseline;
    const std::vector<core::OpRecord>& candidate = traces.candidate;
    const Pairing pairing = pair_records(traces.left, traces.right);
    check_pairs(baseline, candidate, pairing);
    CHECK_FALSE(pairing.summary.gave_up);
    std::uint64_t best = 0;
    for (const Stream& stream : {Stream{0, 0}, Stream{0, 1}, Stream{1, 0}, Stream{1, 1}}) {
      best += longest_common(in_stream(baseline, stream), in_stream(candidate, stream));
    }
    CHECK(pairing.matched == best);
  }
}

TEST_CASE("a trace and itself match by position alone") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<core::OpRecord> trace = random_trace(random);
    const MemorySource left = source_of(trace);
    const MemorySource right = source_of(trace);
    const Pairing pairing = pair_records(left, right);
    const auto by_position = std::ranges::count(pairing.how, MatchedBy::kPosition);
    CHECK(static_cast<std::size_t>(by_position) == trace.size());
    for (std::uint32_t i = 0; i < trace.size(); ++i) CHECK(pairing.candidate_of[i] == i);
  }
}

TEST_CASE("by position, the k-th call of a stream is paired with the k-th or with none") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const EditedTrace traces(seed);
    const std::vector<core::OpRecord>& baseline = traces.baseline;
    const std::vector<core::OpRecord>& candidate = traces.candidate;
    const Pairing pairing =
        pair_records(traces.left, traces.right, {configs::AlignMode::kStrict, false, false});
    check_pairs(baseline, candidate, pairing);
    CHECK(pairing.moved.empty());
    std::uint64_t expected = 0;
    for (const Stream& stream : {Stream{0, 0}, Stream{0, 1}, Stream{1, 0}, Stream{1, 1}}) {
      const auto here = in_stream(baseline, stream);
      const auto there = in_stream(candidate, stream);
      for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
        expected += same_call(here[i], there[i]) ? 1U : 0U;
      }
    }
    CHECK(pairing.matched == expected);
  }
}

/// Two calls a stream, in that order or turned around.
MemorySource many_streams(std::uint32_t streams, bool turned) {
  std::array<std::shared_ptr<const core::OperatorInfo>, 2> names = {
      std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::a", "", false}),
      std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::b", "", false})};
  if (turned) std::swap(names[0], names[1]);
  std::vector<core::OpRecord> trace;
  for (std::uint32_t stream = 0; stream < streams; ++stream) {
    for (const auto& name : names) {
      trace.emplace_back();
      trace.back().op = name;
      trace.back().rank = stream;
    }
  }
  return source_of(std::move(trace));
}

// What is kept for each key was once as long as all keys, for every stream: a terabyte of zeroes.
TEST_CASE("a rank for every other record costs no more than one rank for all") {
  constexpr std::uint32_t kRanks = 200'000;
  const MemorySource left = many_streams(kRanks, false);
  const MemorySource right = many_streams(kRanks, true);
  const Pairing pairing = pair_records(left, right);
  CHECK(pairing.matched == kRanks);
  CHECK(pairing.moved.size() == kRanks);
  CHECK(pairing.baseline.ranks.size() == kRanks);
  CHECK(pairing.baseline.ranks.back() == kRanks - 1);
}

}  // namespace
}  // namespace repro_check::comparators::align_property_test
