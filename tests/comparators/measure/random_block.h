// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comparators/measure/float_block.h"

namespace repro_check::comparators::random_block {

struct Unit {
  std::string_view name;
  BlockLoops loops;
};

/// Those that this machine has beside the portable one; the others are said to be left out.
inline std::vector<Unit> units() {
  std::vector<Unit> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back({"AVX2", avx2_block_loops()});
  } else {
    MESSAGE("left out: this machine has no AVX2");
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    found.push_back({"AVX-512", avx512_block_loops()});
  } else {
    MESSAGE("left out: this machine has no AVX-512");
  }
#else
  MESSAGE("left out: AVX2 and AVX-512, which are of x86-64");
#endif
  return found;
}

/// Zeros, both ends of the subnormal and of the normal numbers, and neighbours of 1.
template <typename Value>
std::vector<Value> edges() {
  using Limits = std::numeric_limits<Value>;
  std::vector<Value> values;
  for (const Value value : {Value{0},
                            Limits::denorm_min(),
                            std::nextafter(Limits::min(), Value{0}),
                            Limits::min(),
                            Value{1},
                            std::nextafter(Value{1}, Value{2}),
                            std::nextafter(Value{1}, Value{0}),
                            Limits::max() / 2,
                            std::nextafter(Limits::max(), Value{0}),
                            Limits::max()}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

/// Finite values: ordinary ones, any pattern there is, edges; the candidate is often near the
/// baseline.
template <typename Value>
struct Block {
  std::vector<Value> baseline;
  std::vector<Value> candidate;

  Block(std::mt19937_64& random, std::size_t count) : edges_(edges<Value>()) {
    for (std::size_t i = 0; i < count; ++i) {
      baseline.push_back(any(random));
      candidate.push_back(near(random, baseline.back()));
    }
  }

 private:
  Value any(std::mt19937_64& random) const {
    switch (random() % 4) {
      case 0:
        return edges_[random() % edges_.size()];
      case 1: {
        using Bits = std::conditional_t<sizeof(Value) == 4, std::uint32_t, std::uint64_t>;
        const auto value = std::bit_cast<Value>(static_cast<Bits>(random()));
        return std::isfinite(value) ? value : Value{0};
      }
      default:
        return std::normal_distribution<Value>()(random);
    }
  }

  Value near(std::mt19937_64& random, Value value) const {
    switch (random() % 6) {
      case 0:
        return any(random);
      case 1:
        return -value;
      case 2: {
        const Value next = std::nextafter(value, std::numeric_limits<Value>::max());
        return std::isfinite(next) ? next : value;
      }
      case 3: {
        const Value scaled = value * static_cast<Value>(1.0009765625);
        return std::isfinite(scaled) ? scaled : value;
      }
      default:
        return value;
    }
  }

  std::vector<Value> edges_;
};

inline BlockPolicy any_policy(std::mt19937_64& random, double min_normal, double max_finite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kNumbers{0.0, 1.3e-6, 1e-5, 1e-3, 1.0, 1e30};
  const auto pick = [&] { return kNumbers[random() % kNumbers.size()]; };
  const bool by_ulp = random() % 3 == 0;
  BlockPolicy policy{};
  policy.rtol = by_ulp ? 0 : pick();
  policy.atol = by_ulp ? kInfinity : pick();
  policy.needed_rtol = pick();
  policy.given_rtol = random() % 2 == 0 ? kInfinity : pick();
  policy.given_atol = random() % 2 == 0 ? kInfinity : pick();
  policy.min_normal = min_normal;
  policy.max_finite = max_finite;
  policy.max_ulp = by_ulp ? random() % 5 : std::numeric_limits<std::uint64_t>::max();
  policy.signed_zero_distinct = random() % 2 == 0;
  return policy;
}

/// Lanes start anywhere, as in the middle of a leaf.
inline BlockSums any_sums(std::mt19937_64& random) {
  BlockSums sums{};
  if (random() % 2 == 0) return sums;
  for (std::size_t lane = 0; lane < kBlockLanes; ++lane) {
    for (auto* sum : {sums.abs, sums.rel, sums.d2, sums.b2, sums.c2, sums.bc}) {
      sum[lane] = std::uniform_real_distribution<double>(0, 100)(random);
    }
  }
  return sums;
}

inline std::size_t any_count(std::mt19937_64& random) {
  return kBlockLanes * (1 + random() % (kBlock / kBlockLanes));
}

}  // namespace repro_check::comparators::random_block
