// SPDX-License-Identifier: Apache-2.0
// The inner loop over float32 against the definitions of what it counts, pair by pair.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "comparators/measure/float_block.h"
#include "tests/comparators/measure/random_block.h"

namespace repro_check::comparators::narrow_loop_test {
namespace {

constexpr std::uint32_t kSeed = 20261122;
constexpr int kRounds = 400;

using random_block::any_count;
using random_block::any_policy;
using random_block::Block;
using random_block::Unit;
using random_block::units;

/// What the narrow loop says of one pair, from the definitions alone.
struct PairFacts {
  double abs = 0;
  double rel = 0;
  std::uint64_t ulp = 0;
  bool has_base = false;
  bool beyond = false;

  PairFacts(float b, float c, const BlockPolicy& policy)
      : abs(std::abs(static_cast<double>(c) - static_cast<double>(b))), has_base(b != 0) {
    const double base = std::abs(static_cast<double>(b));
    if (has_base) rel = abs / base;
    const auto place = [](float value) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const auto magnitude = static_cast<std::int64_t>(bits & 0x7FFF'FFFFU);
      return (bits >> 31U) != 0 ? -magnitude : magnitude;
    };
    ulp = static_cast<std::uint64_t>(std::abs(place(c) - place(b)));
    const bool tolerant = policy.rtol > 0 || policy.atol > 0;
    const bool over = tolerant ? abs > policy.atol + policy.rtol * base : abs > 0;
    const bool zero_sign = abs == 0 && std::signbit(b) != std::signbit(c);
    beyond = over || ulp > policy.max_ulp || (zero_sign && policy.signed_zero_distinct);
  }

  [[nodiscard]] std::int32_t code() const {
    if (ulp == 0) return 0;
    const auto ulp_code = 1 + static_cast<int>(std::ceil(std::log2(static_cast<double>(ulp))));
    int rel_code = kRelOfZeroBase;
    if (has_base) {
      rel_code = 1 + std::clamp(std::ilogb(rel), kLeastRelExponent, kGreatestRelExponent) -
                 kLeastRelExponent;
    }
    return (ulp_code << kRelBits) + rel_code;
  }
};

/// What a block of such pairs has.
struct BlockFacts {
  BlockFindings found{};
  std::uint64_t ulps = 0;

  void add(float b, float c, const PairFacts& pair, const BlockPolicy& policy) {
    const bool no_base = !pair.has_base && pair.abs > 0;
    found.max_abs = std::max(found.max_abs, pair.abs);
    found.max_rel = std::max(found.max_rel, pair.rel);
    found.n_rel += one_if(pair.has_base);
    found.zero_base += one_if(no_base);
    found.outside_1e3 += one_if(pair.rel >= 1e-3 || no_base);
    found.outside_5e3 += one_if(pair.rel >= 5e-3 || no_base);
    found.differ += one_if(std::bit_cast<std::uint32_t>(b) != std::bit_cast<std::uint32_t>(c));
    found.unequal += one_if(pair.abs > 0);
    found.beyond += one_if(pair.beyond);
    found.flips += one_if(b != 0 && c != 0 && std::signbit(b) != std::signbit(c));
    found.flushed += one_if((b == 0) != (c == 0) && std::fpclassify(b + c) == FP_SUBNORMAL);
    constexpr float kMost = std::numeric_limits<float>::max();
    found.saturated += one_if(std::abs(c) == kMost && std::abs(b) < kMost);
    found.ulp_max = std::max(found.ulp_max, pair.ulp);
    const double base = std::abs(static_cast<double>(b));
    found.short_of_rtol += one_if(pair.has_base && pair.abs > policy.needed_rtol * base);
    ulps += pair.ulp;
  }

 private:
  static std::uint64_t one_if(bool is) { return is ? 1 : 0; }
};

void check_same(const BlockFindings& found, const BlockFacts& facts) {
  const BlockFindings& expected = facts.found;
  CHECK(found.max_abs == expected.max_abs);
  CHECK(found.max_rel == expected.max_rel);
  CHECK(found.n_rel == expected.n_rel);
  CHECK(found.zero_base == expected.zero_base);
  CHECK(found.outside_1e3 == expected.outside_1e3);
  CHECK(found.outside_5e3 == expected.outside_5e3);
  CHECK(found.differ == expected.differ);
  CHECK(found.unequal == expected.unequal);
  CHECK(found.beyond == expected.beyond);
  CHECK(found.flips == expected.flips);
  CHECK(found.flushed == expected.flushed);
  CHECK(found.saturated == expected.saturated);
  CHECK(found.ulp_max == expected.ulp_max);
  CHECK((found.ulp_high << 32U) + found.ulp_low == facts.ulps);
  CHECK(found.short_of_rtol == expected.short_of_rtol);
  CHECK(found.special == 0);
}

TEST_CASE("float32: what a block holds is what its pairs are, one by one") {
  std::vector<Unit> all = units();
  all.push_back({"portable", portable_block_loops()});
  std::mt19937_64 random(kSeed);
  using Limits = std::numeric_limits<float>;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const Block<float> block(random, any_count(random));
    const BlockPolicy policy =
        any_policy(random, static_cast<double>(Limits::min()), static_cast<double>(Limits::max()));
    const std::size_t count = block.baseline.size();
    const NarrowPairs pairs{block.baseline.data(), block.candidate.data(), nullptr, nullptr, count};
    for (const Unit& unit : all) {
      CAPTURE(std::string(unit.name));
      BlockSums sums{};
      std::vector<std::int32_t> codes(kBlock);
      const BlockFindings found = unit.loops.narrow(pairs, policy, sums, codes.data());
      BlockFacts expected;
      for (std::size_t i = 0; i < count; ++i) {
        const PairFacts pair(block.baseline[i], block.candidate[i], policy);
        REQUIRE(codes[i] == pair.code());
        expected.add(block.baseline[i], block.candidate[i], pair, policy);
      }
      check_same(found, expected);
    }
  }
}

}  // namespace
}  // namespace repro_check::comparators::narrow_loop_test
