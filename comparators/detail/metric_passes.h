// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "comparators/policy.h"
#include "comparators/report.h"
#include "core/dtype.h"

namespace repro_check::comparators::detail {

/// Two contents of one dtype, aligned for it.
struct PairInput {
  core::Dtype dtype = core::Dtype::kUnknown;
  const std::byte* baseline = nullptr;
  const std::byte* candidate = nullptr;
  std::uint64_t count = 0;  ///< elements on each side
};

// One pass a class of dtypes; each fills everything but TensorMetrics::elements, which is set.
void measure_floats(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics);
void measure_integers(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics);
void measure_complex(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics);
void measure_bools(const PairInput& input, const ElementPolicy& policy, TensorMetrics& metrics);
/// Bytes whose values are not interpreted: what differs is beyond every policy.
void measure_opaque(const PairInput& input, TensorMetrics& metrics);

}  // namespace repro_check::comparators::detail
