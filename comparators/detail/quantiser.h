// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "configs/compare_spec.h"
#include "core/tensor_record.h"
#include "core/tensor_view.h"

namespace repro_check::comparators::detail {

/// What one scale and one zero point make of an integer: (q - zero_point) * scale.
struct Quantiser {
  double scale = 1;
  std::int64_t zero_point = 0;
};

/// Those of two tensors.
struct QuantiserPair {
  Quantiser baseline;
  Quantiser candidate;
};

/// The quantisers of two tensors of one quantised dtype and one scheme with one scale each, where
/// `policy` looks at values and not at integers. Empty otherwise: bitwise, ulp and noise go by the
/// integers, as do tensors quantised channel by channel.
std::optional<QuantiserPair> quantisers_of(const core::TensorRecord& baseline,
                                           const core::TensorRecord& candidate,
                                           configs::PolicyKind policy);

/// The values that the integers of `view` stand for, as float64.
/// @param view  of a quantised dtype
std::vector<std::byte> dequantised(core::TensorView view, const Quantiser& quantiser);

}  // namespace repro_check::comparators::detail
