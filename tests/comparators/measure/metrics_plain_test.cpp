// SPDX-License-Identifier: Apache-2.0
// Blocks of ordinary numbers take a shorter way through the inner loop.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "comparators/measure/metrics.h"
#include "comparators/measure/policy.h"
#include "core/tensor/dtype.h"
#include "tests/comparators/measure/tensor_pair.h"

namespace repro_check::comparators {
namespace {

struct Layout {
  core::Dtype dtype;
  unsigned exponent_bits;
  unsigned mantissa_bits;
};

class Generator {
 public:
  explicit Generator(const Layout& layout) : layout_(layout) {}

  /// A normal number below the greatest one, of either sign.
  std::uint64_t number() {
    const std::uint64_t bias = (std::uint64_t{1} << (layout_.exponent_bits - 1)) - 1;
    const std::uint64_t exponent = bias - 3 + random_() % 6;
    const std::uint64_t mantissa = random_() & ((std::uint64_t{1} << layout_.mantissa_bits) - 1);
    const std::uint64_t sign = random_() & 1;
    return (((sign << layout_.exponent_bits) | exponent) << layout_.mantissa_bits) | mantissa;
  }

  /// One of its neighbours, near or far, mostly; itself otherwise.
  std::uint64_t moved(std::uint64_t from) {
    const std::uint64_t kind = random_() % 4;
    if (kind == 0) return from;
    const std::uint64_t reach = kind == 1 ? 3 : std::uint64_t{1} << (layout_.mantissa_bits - kind);
    const std::uint64_t by = random_() % reach;
    return (random_() & 1) == 0 ? from + by : from - by;
  }

 private:
  Layout layout_;
  std::mt19937_64 random_{20'261'122};  // NOLINT(cert-msc51-cpp): the same numbers every time
};

void append(std::vector<std::byte>& into, std::uint64_t bits, std::size_t size) {
  std::byte bytes[sizeof bits];  // NOLINT(modernize-avoid-c-arrays)
  std::memcpy(bytes, &bits, sizeof bits);
  into.insert(into.end(), bytes, bytes + size);
}

void expect_equal_counts(const TensorMetrics& plain, const TensorMetrics& spread) {
  CHECK(plain.n_diff == spread.n_diff);
  CHECK(plain.n_beyond == spread.n_beyond);
  CHECK(plain.flips == 0);
  CHECK(spread.flips == 0);
  CHECK(plain.flushed == spread.flushed);
  CHECK(plain.saturated == spread.saturated);
  CHECK(plain.zero_baseline == spread.zero_baseline);
  CHECK(plain.zero_sign_only == spread.zero_sign_only);
  CHECK(plain.max_abs == spread.max_abs);
  CHECK(plain.max_rel == spread.max_rel);
  CHECK(plain.ulp_max == spread.ulp_max);
  CHECK(plain.ulp_mean == spread.ulp_mean);
  CHECK(plain.rtol_needed == spread.rtol_needed);
  CHECK(plain.atol_needed == spread.atol_needed);
  CHECK(plain.rel_hist->exponents == spread.rel_hist->exponents);
  REQUIRE(plain.first_diff);
  CHECK(*plain.first_diff * 2 == *spread.first_diff);
  CHECK(*plain.max_abs_index * 2 == *spread.max_abs_index);
  if (plain.first_beyond) CHECK(*plain.first_beyond * 2 == *spread.first_beyond);
}

TEST_CASE("ordinary numbers give what they give between zeros") {
  // Zeros send a block the long way, and change nothing but sums over all elements.
  for (const Layout& layout : {Layout{core::Dtype::kFloat64, 11, 52},
                               Layout{core::Dtype::kFloat32, 8, 23},
                               Layout{core::Dtype::kBFloat16, 8, 7},
                               Layout{core::Dtype::kFloat16, 5, 10}}) {
    CAPTURE(std::string(core::dtype_name(layout.dtype)));
    const std::size_t size = core::element_size(layout.dtype);
    constexpr std::int64_t kCount = 4096;
    TensorPair plain(layout.dtype, {kCount});
    TensorPair spread(layout.dtype, {2 * kCount});
    Generator generator(layout);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::uint64_t from = generator.number();
      const std::uint64_t to = generator.moved(from);
      append(plain.baseline_bytes, from, size);
      append(plain.candidate_bytes, to, size);
      append(spread.baseline_bytes, from, size);
      append(spread.candidate_bytes, to, size);
      append(spread.baseline_bytes, 0, size);
      append(spread.candidate_bytes, 0, size);
    }
    std::vector<ElementPolicy> policies(4);
    policies[1].rtol = 1e-3;
    policies[2].rtol = 1e-4;
    policies[2].atol = 1e-3;
    policies[3].max_ulp = 2;
    for (const ElementPolicy& policy : policies) {
      const TensorMetrics m = measure(plain.baseline(), plain.candidate(), policy);
      CHECK(m.n_diff > kCount / 2);
      CHECK(m.n_diff < kCount);
      expect_equal_counts(m, measure(spread.baseline(), spread.candidate(), policy));
    }
  }
}

}  // namespace
}  // namespace repro_check::comparators
