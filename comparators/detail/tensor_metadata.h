// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comparators/report.h"
#include "core/tensor_record.h"

namespace repro_check::comparators::detail {

/// Differences in what is not content that count as a mismatch.
struct AttributeRules {
  bool strict_strides = false;
  bool strict_device = false;

  [[nodiscard]] bool accept(const core::TensorRecord& b, const core::TensorRecord& c) const {
    return (!strict_strides || b.strides == c.strides) && (!strict_device || b.device == c.device);
  }
};

/// What must agree before any value is looked at, and does not; empty when all does.
/// @param any_dtype  the two dtypes are compared in a common one
std::string metadata_mismatch(const core::TensorRecord& b,
                              const core::TensorRecord& c,
                              const AttributeRules& rules,
                              bool any_dtype);

/// Whether nobody can say what is in the tensor.
bool has_no_content(core::ContentState state) noexcept;

/// Sets the outcome of two records of which at least one has no digest; the metadata agree.
void judge_states(TensorComparison& comparison);

}  // namespace repro_check::comparators::detail
