// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "configs/spec/compare_spec.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators::detail {

/// The dtype in which tensors of two dtypes can be compared: float64, complex128 or int64, each of
/// which holds both exactly; under a limit in ULP the narrower of the two instead. Empty where the
/// two are not of one class, or none of these holds both.
std::optional<core::Dtype> common_dtype(core::Dtype one,
                                        core::Dtype other,
                                        configs::PolicyKind policy) noexcept;

/// Makes every number of `bytes` whose magnitude is below the least normal one of `dtype` a zero of
/// its sign, or the only zero there is. Dtypes without subnormals are left as they are.
void flush_subnormals(core::Dtype dtype, std::vector<std::byte>& bytes) noexcept;

/// The elements of `view` as `dtype`, which common_dtype() chose: exactly, or rounded to the
/// nearest, ties to even.
std::vector<std::byte> converted(core::TensorView view, core::Dtype dtype);

}  // namespace repro_check::comparators::detail
