// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "comparators/measure/float_block.h"
#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/pair_measurer.h"
#include "core/content/content.h"
#include "core/error.h"
#include "core/system/instruction_set.h"

namespace repro_check::comparators {
namespace {

void check(core::TensorView baseline, core::TensorView candidate, std::uint64_t count) {
  if (baseline.dtype == core::Dtype::kUnknown) {
    throw core::Error(core::ErrorKind::kUnsupportedDtype,
                      "a tensor of an unknown dtype has no values to compare");
  }
  const std::uint64_t bytes = count * core::element_size(baseline.dtype);
  if (baseline.dtype != candidate.dtype || !std::ranges::equal(baseline.shape, candidate.shape) ||
      baseline.bytes.size() != bytes || candidate.bytes.size() != bytes) {
    throw core::Error(core::ErrorKind::kInternal,
                      "metrics were asked for two tensors that do not have one dtype, one shape "
                      "and the bytes they need");
  }
}

}  // namespace

TensorMetrics measure(core::TensorView baseline,
                      core::TensorView candidate,
                      const ElementPolicy& policy,
                      unsigned threads) {
  check(baseline, candidate, static_cast<std::uint64_t>(core::element_count(baseline.shape)));
  const core::MemoryParts left(baseline.bytes);
  const core::MemoryParts right(candidate.bytes);
  const std::vector<std::int64_t> shape(baseline.shape.begin(), baseline.shape.end());
  return detail::PairMeasurer(threads)
      .measure({{baseline.dtype, shape, &left, &right}, policy, 0})
      .metrics;
}

namespace detail {

const BlockLoops& block_loops() noexcept {
  static const std::array<BlockLoops, 3> loops{
      avx512_block_loops(), avx2_block_loops(), portable_block_loops()};
  static const BlockLoops& fastest = core::detail::runnable(loops).front();
  return fastest;
}

std::unique_ptr<LeafPass> make_pass(core::Dtype dtype, const ElementPolicy& policy) {
  if (dtype == core::Dtype::kBool) return make_bool_pass(policy);
  if (dtype == core::Dtype::kFloat4E2M1FNX2) return make_opaque_pass(policy);
  if (core::is_floating(dtype)) return make_float_pass(dtype, policy);
  if (core::is_complex(dtype)) return make_complex_pass(dtype, policy);
  return make_integer_pass(dtype, policy);
}

}  // namespace detail

}  // namespace repro_check::comparators
