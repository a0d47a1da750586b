// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "comparators/detail/float_pass.h"
#include "comparators/detail/metric_passes.h"
#include "comparators/detail/range_rescue.h"

namespace repro_check::comparators::detail {
namespace {

template <typename Format>
void measure_as(const PairInput& input,
                const Format& format,
                const ElementPolicy& policy,
                TensorMetrics& metrics) {
  using Raw = typename Format::Raw;
  const auto* baseline = reinterpret_cast<const Raw*>(input.baseline);
  const auto* candidate = reinterpret_cast<const Raw*>(input.candidate);
  FloatPass<Format> pass(format, policy, metrics);
  pass.run(baseline, candidate, input.count);
  PairTotals& totals = pass.totals();
  // No other dtype can leave the range of double's squares.
  if (sizeof(Raw) == sizeof(double) && out_of_range(totals)) {
    rescue_range(
        input.count,
        [&](std::uint64_t i) {
          return std::tuple(format.finite(baseline[i]) && format.finite(candidate[i]),
                            static_cast<double>(format.value(baseline[i])),
                            static_cast<double>(format.value(candidate[i])));
        },
        totals);
  }
  finish_metrics(totals, {}, metrics);
}

}  // namespace

void measure_floats(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics) {
  switch (input.dtype) {
    case core::Dtype::kFloat32:
      return measure_as(input, Float32Format{}, policy, metrics);
    case core::Dtype::kBFloat16:
      return measure_as(input, BFloat16Format{}, policy, metrics);
    case core::Dtype::kFloat16:
      return measure_as(input, Float16Format{}, policy, metrics);
    case core::Dtype::kFloat64:
      return measure_as(input, Float64Format{}, policy, metrics);
    default:
      return measure_as(input, Float8Format{&core::byte_float(input.dtype)}, policy, metrics);
  }
}

}  // namespace repro_check::comparators::detail
