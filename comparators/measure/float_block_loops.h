// SPDX-License-Identifier: Apache-2.0
// Included by one file an instruction set, which defines REPRO_CHECK_VECTOR_BYTES if its vectors
// are wider than every machine's. Everything here has internal linkage on purpose: see
// float_block.h.
#pragma once

#include "comparators/measure/float_block.h"
#include "comparators/measure/float_block_narrow.h"
#include "comparators/measure/float_block_vectors.h"
#include "comparators/measure/float_block_wide.h"

namespace repro_check::comparators::detail {
namespace {

inline Doubles values_at(const float* at) { return widen(load<Floats>(at)); }
inline Doubles values_at(const double* at) { return load<Doubles>(at); }

template <typename Value>
std::uint64_t add_squares(const Value* values, std::size_t count, BlockSums& sums) {
  Longs not_zero{};
  for (std::size_t lane = 0; lane < kBlockLanes; lane += kWidth) {
    auto sum_b2 = load<Doubles>(sums.b2 + lane);
    auto sum_c2 = load<Doubles>(sums.c2 + lane);
    auto sum_bc = load<Doubles>(sums.bc + lane);
    for (std::size_t i = lane; i < count; i += kBlockLanes) {
      const Doubles value = values_at(values + i);
      const Doubles square = value * value;
      sum_b2 += square;
      sum_c2 += square;
      sum_bc += square;
      not_zero += value != 0;
    }
    store(sums.b2 + lane, sum_b2);
    store(sums.c2 + lane, sum_c2);
    store(sums.bc + lane, sum_bc);
  }
  return hits(not_zero);
}

// One for each instruction set, in a namespace of its file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
constexpr BlockLoops kLoops{add_narrow, add_wide, add_squares<float>, add_squares<double>};

}  // namespace
}  // namespace repro_check::comparators::detail
