// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators::detail {

/// Differences in what is not content that count as a mismatch.
struct AttributeRules {
  bool strict_strides = false;
  bool strict_device = false;

  [[nodiscard]] bool accept(const core::TensorRecord& b, const core::TensorRecord& c) const {
    return (!strict_strides || b.strides == c.strides) && (!strict_device || b.device == c.device);
  }
};

/// What need not agree, since values are compared in a common form.
struct Relaxed {
  bool dtype = false;
  bool quantiser = false;
};

/// What must agree before any value is looked at, and does not; empty when all does.
std::string metadata_mismatch(const core::TensorRecord& b,
                              const core::TensorRecord& c,
                              const AttributeRules& rules,
                              Relaxed relaxed);

/// Whether nobody can say what is in the tensor.
bool has_no_content(core::ContentState state) noexcept;

/// Whether the tensor has values that the recording could not read: an opaque layout, a dtype whose
/// numbers LibTorch does not give out. A tensor on `meta` has none.
bool has_unread_values(const core::TensorRecord& tensor) noexcept;

/// Sets the outcome of two records of which at least one has no digest; the metadata agree.
void judge_states(TensorComparison& comparison);

/// `float32 [2, 3]`
std::string dtype_and_shape(core::Dtype dtype, const std::vector<std::int64_t>& shape);

/// What the metrics say in words: `only zero signs differ`, `NaN in baseline only`; empty when the
/// numbers say it all.
std::string describe_metrics(const TensorMetrics& metrics);

/// `first beyond: 2.29e-05 > 2.28e-05`: the absolute error of the first of `samples` that is beyond
/// the tolerance, and what |baseline| allows there, with as many digits as tell them apart. Empty
/// where none of them is, or the dtype is not a real floating one.
/// @param samples  of tensors that are both of `dtype`
std::string first_beyond_text(const std::vector<Sample>& samples,
                              core::Dtype dtype,
                              const ElementPolicy& policy);

/// Adds `words` to a note, where `holds`.
void append_note(std::string& text, bool holds, std::string_view words);

}  // namespace repro_check::comparators::detail
