// SPDX-License-Identifier: Apache-2.0
#include "comparators/metrics.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comparators/detail/metric_passes.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

/// Content lent at an odd address is copied: the passes read whole elements.
const std::byte* aligned(std::span<const std::byte> bytes, std::vector<std::byte>& copy) {
  constexpr std::uintptr_t kAlignment = 8;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment == 0) return bytes.data();
  copy.assign(bytes.begin(), bytes.end());
  return copy.data();
}

void check(core::TensorView baseline, core::TensorView candidate, std::uint64_t count) {
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
                      const ElementPolicy& policy) {
  using core::Dtype;
  if (baseline.dtype == Dtype::kUnknown) {
    throw core::Error(core::ErrorKind::kUnsupportedDtype,
                      "a tensor of an unknown dtype has no values to compare");
  }
  TensorMetrics metrics;
  metrics.elements = static_cast<std::uint64_t>(core::element_count(baseline.shape));
  check(baseline, candidate, metrics.elements);
  std::vector<std::byte> baseline_copy;
  std::vector<std::byte> candidate_copy;
  const detail::PairInput input{baseline.dtype,
                                aligned(baseline.bytes, baseline_copy),
                                aligned(candidate.bytes, candidate_copy),
                                metrics.elements};
  if (baseline.dtype == Dtype::kBool) {
    detail::measure_bools(input, policy, metrics);
  } else if (baseline.dtype == Dtype::kFloat4E2M1FNX2) {
    detail::measure_opaque(input, metrics);
  } else if (core::is_floating(baseline.dtype)) {
    detail::measure_floats(input, policy, metrics);
  } else if (core::is_complex(baseline.dtype)) {
    detail::measure_complex(input, policy, metrics);
  } else {
    detail::measure_integers(input, policy, metrics);
  }
  return metrics;
}

}  // namespace repro_check::comparators
