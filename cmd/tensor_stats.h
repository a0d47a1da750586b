// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tensor_record.h"
#include "core/tensor_view.h"

namespace repro_check::cmd {

/// Summary of stored content in float64, equal to what a recorder keeps at level `stats`: complex
/// elements count as two numbers, quantised ones as their integers, float4 pairs are taken apart.
/// @return min and max over everything but NaN, mean, std and l2 over finite elements; NaN where
///         there are none
/// @throws core::Error{kUnsupportedDtype} for an unknown dtype
core::TensorStats tensor_stats(core::TensorView tensor);

}  // namespace repro_check::cmd
