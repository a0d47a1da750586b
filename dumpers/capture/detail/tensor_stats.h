// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/dtype.h"
#include "core/tensor_record.h"
#include "dumpers/capture/detail/strided_bytes.h"

namespace repro_check::capture {

/// Statistics of every element in float64, in logical order, on one thread, so that equal contents
/// have equal statistics. Complex elements count as two numbers, quantised ones as their integers;
/// float4 pairs are taken apart.
/// @return mean, std and l2 over finite elements; NaN (also min and max) where there are none
core::TensorStats compute_stats(core::Dtype dtype, const StridedBytes& content);

}  // namespace repro_check::capture
