// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "core/tensor/tensor_record.h"

namespace repro_check::capture {

/// Part of a tensor by its ending: `values`, `scales`; undefined where there is none.
using PartOf = std::function<at::Tensor(const std::string& ending)>;

/// Makes a quantised, sparse or nested tensor again.
/// @param integers  of a quantised one, with its strides; undefined for the others
/// @param device    where a sparse one goes
/// @throws core::Error{kNotComparable}
at::Tensor whole_from_parts(const core::TensorRecord& tensor,
                            const at::Tensor& integers,
                            const PartOf& part,
                            c10::Device device);

}  // namespace repro_check::capture
