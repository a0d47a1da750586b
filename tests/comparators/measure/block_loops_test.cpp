// SPDX-License-Identifier: Apache-2.0
// The inner loops of every instruction set give the bits of the portable ones, one by one.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "comparators/measure/float_block.h"
#include "core/tensor/dtype.h"
#include "tests/comparators/measure/random_block.h"

namespace repro_check::comparators::block_loops_test {
namespace {

constexpr std::uint32_t kSeed = 20260104;
constexpr int kRounds = 400;

using random_block::any_count;
using random_block::any_policy;
using random_block::any_sums;
using random_block::Block;
using random_block::Unit;
using random_block::units;

/// Everything a loop leaves behind, bit by bit.
struct Outcome {
  BlockFindings findings{};
  BlockSums sums{};
  std::vector<std::int32_t> codes;
  BlockSums squares{};
  std::uint64_t nonzero = 0;
};

bool same_bits(const Outcome& left, const Outcome& right) {
  static_assert(sizeof(BlockFindings) % 8 == 0 && sizeof(BlockSums) % 8 == 0);
  return std::memcmp(&left.findings, &right.findings, sizeof(BlockFindings)) == 0 &&
         std::memcmp(&left.sums, &right.sums, sizeof(BlockSums)) == 0 &&
         std::memcmp(&left.squares, &right.squares, sizeof(BlockSums)) == 0 &&
         left.codes == right.codes && left.nonzero == right.nonzero;
}

Outcome run(const BlockLoops& loops,
            const NarrowPairs& pairs,
            const BlockPolicy& policy,
            const BlockSums& start) {
  Outcome outcome{{}, start, std::vector<std::int32_t>(kBlock, -1), start, 0};
  outcome.findings = loops.narrow(pairs, policy, outcome.sums, outcome.codes.data());
  outcome.nonzero = loops.narrow_squares(pairs.baseline, pairs.count, outcome.squares);
  return outcome;
}

Outcome run(const BlockLoops& loops,
            const WidePairs& pairs,
            const BlockPolicy& policy,
            const BlockSums& start) {
  Outcome outcome{{}, start, std::vector<std::int32_t>(kBlock, -1), start, 0};
  outcome.findings = loops.wide(pairs, policy, outcome.sums, outcome.codes.data());
  outcome.nonzero = loops.wide_squares(pairs.baseline, pairs.count, outcome.squares);
  return outcome;
}

template <typename Pairs>
void check_all(const std::vector<Unit>& all,
               const Pairs& pairs,
               const BlockPolicy& policy,
               const BlockSums& start) {
  const Outcome expected = run(portable_block_loops(), pairs, policy, start);
  for (const Unit& unit : all) {
    CAPTURE(std::string(unit.name));
    CAPTURE(pairs.count);
    REQUIRE(same_bits(run(unit.loops, pairs, policy, start), expected));
  }
}

TEST_CASE("float32: every instruction set gives the same bits") {
  const std::vector<Unit> all = units();
  std::mt19937_64 random(kSeed);
  using Limits = std::numeric_limits<float>;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const Block<float> block(random, any_count(random));
    const NarrowPairs pairs{
        block.baseline.data(), block.candidate.data(), nullptr, nullptr, block.baseline.size()};
    const BlockPolicy policy =
        any_policy(random, static_cast<double>(Limits::min()), static_cast<double>(Limits::max()));
    check_all(all, pairs, policy, any_sums(random));
  }
}

TEST_CASE("float64: every instruction set gives the same bits") {
  const std::vector<Unit> all = units();
  std::mt19937_64 random(kSeed + 1);
  using Limits = std::numeric_limits<double>;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const Block<double> block(random, any_count(random));
    const WidePairs pairs{block.baseline.data(), block.candidate.data(), block.baseline.size()};
    const BlockPolicy policy = any_policy(random, Limits::min(), Limits::max());
    check_all(all, pairs, policy, any_sums(random));
  }
}

TEST_CASE("a block with a NaN or an infinity on a side is named, and not added") {
  std::mt19937_64 random(kSeed + 3);
  for (const Unit& unit : units()) {
    CAPTURE(std::string(unit.name));
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      std::array<std::vector<float>, 2> values;
      values.fill(std::vector<float>(any_count(random), 1.0F));
      values.at(random() % 2).at(random() % values[0].size()) = odd;
      const std::array<std::vector<double>, 2> wide{
          std::vector<double>(values[0].begin(), values[0].end()),
          std::vector<double>(values[1].begin(), values[1].end())};
      const BlockSums start = any_sums(random);
      BlockFindings only{};
      only.special = 1;
      const auto untouched = [&](const Outcome& outcome) {
        return std::memcmp(&outcome.findings, &only, sizeof only) == 0 &&
               std::memcmp(&outcome.sums, &start, sizeof start) == 0;
      };
      const NarrowPairs narrow{
          values[0].data(), values[1].data(), nullptr, nullptr, values[0].size()};
      CHECK(untouched(run(unit.loops, narrow, any_policy(random, 0x1p-126, 0x1p127), start)));
      const WidePairs doubles{wide[0].data(), wide[1].data(), wide[0].size()};
      CHECK(untouched(run(unit.loops, doubles, any_policy(random, 0x1p-1022, 0x1p1023), start)));
    }
  }
}

TEST_CASE("narrower floats, with orders of their own: every instruction set gives the same bits") {
  const std::vector<Unit> all = units();
  std::mt19937_64 random(kSeed + 2);
  for (const core::Dtype dtype : {core::Dtype::kFloat16, core::Dtype::kBFloat16}) {
    for (int round = 0; round < kRounds / 2; ++round) {
      CAPTURE(round);
      const std::size_t count = any_count(random);
      std::array<std::vector<float>, 2> values;
      std::array<std::vector<std::int32_t>, 2> orders;
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t bits = random() & 0xFFFFU;
        for (std::size_t side = 0; side < 2; ++side) {
          if (side == 1 && random() % 2 == 0) bits ^= std::uint64_t{1} << (random() % 3);
          const auto position = core::ulp_position(dtype, bits);
          // What is not finite never enters a loop.
          values.at(side).push_back(position ? static_cast<float>(core::decode_float(dtype, bits))
                                             : 0.0F);
          orders.at(side).push_back(static_cast<std::int32_t>(position.value_or(0)));
        }
      }
      const NarrowPairs pairs{
          values[0].data(), values[1].data(), orders[0].data(), orders[1].data(), count};
      const bool is_half = dtype == core::Dtype::kFloat16;
      const BlockPolicy policy =
          any_policy(random, is_half ? 0x1p-14 : 0x1p-126, is_half ? 65504.0 : 0x1.FEp127);
      check_all(all, pairs, policy, any_sums(random));
    }
  }
}

TEST_CASE("the comparison of two outcomes sees one bit") {
  Outcome one{{}, {}, std::vector<std::int32_t>(kBlock, 0), {}, 0};
  Outcome other = one;
  CHECK(same_bits(one, other));
  other.sums.d2[3] = -0.0;
  CHECK_FALSE(same_bits(one, other));
}

}  // namespace
}  // namespace repro_check::comparators::block_loops_test
