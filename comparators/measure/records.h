// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// A scalar argument or result that is not the same in two calls.
struct ScalarDifference {
  std::string name;  ///< argument name, or `result 0`; of a returned value its path
  std::string baseline;
  std::string candidate;
  bool beyond = true;  ///< fails the policy; arguments are always compared exactly

  /// `p: 0.1 against 0.2`
  [[nodiscard]] std::string text() const;
};

/// Exact equality of everything but tensors, which have records of their own: any tensor is equal
/// to any other here, but not to None.
bool same_scalars(const core::Value& baseline, const core::Value& candidate);

/// @param ignore_symbols  leave out devices, layouts and the like, which say where and not what
std::vector<ScalarDifference> differing_arguments(const core::OpRecord& baseline,
                                                  const core::OpRecord& candidate,
                                                  bool ignore_symbols);

/// What a number keeps to, and the dtype of the tensor it came from.
struct ScalarPolicy {
  ElementPolicy element;
  core::Dtype dtype = core::Dtype::kFloat64;
};

/// The policy of the result in one slot (`0`, of a returned value its path); empty where it is not
/// to be judged.
using PolicyOfResult = std::function<std::optional<ScalarPolicy>(std::string_view slot)>;

/// Results other than tensors. Real numbers are judged by their policy, all else is exact.
/// @param policy_of  asked for differing results only, and for NaN
std::vector<ScalarDifference> differing_results(const core::OpRecord& baseline,
                                                const core::OpRecord& candidate,
                                                const PolicyOfResult& policy_of);

/// Whether a value is a tensor, or a list of nothing but tensors.
bool is_tensor(const core::Value& value);

/// A scalar as a report shows it, cut where it is long.
std::string short_text(const core::Value& value);

/// The results that are no tensors, as a report shows them: `True`; empty where there are none.
std::string results_text(const core::OpRecord& record);

/// Whether a record returned anything that is not a tensor.
bool has_scalar_results(const core::OpRecord& record);

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

/// The tensors of one role, in the order of the record, which is borrowed.
std::vector<const core::TensorRecord*> tensors_of(const core::OpRecord& record,
                                                  core::TensorRole role);

/// Null where the record has none.
const core::TensorRecord* find_tensor(const core::OpRecord& record,
                                      core::TensorRole role,
                                      std::string_view slot);

/// The tensor that `part` is a part of: `0` of `0.scales`. Null where it is none.
const core::TensorRecord* whole_of(const core::OpRecord& record, const core::TensorRecord& part);

/// The part of a tensor whose slot ends in `ending`: `0.scales` of `0`. Null where there is none.
const core::TensorRecord* find_part(const core::OpRecord& record,
                                    const core::TensorRecord& whole,
                                    std::string_view ending);

/// Two tensors, and the records they and their parts belong to. Borrowed.
struct RecordedPair {
  const core::TensorRecord& baseline;
  const core::TensorRecord& candidate;
  const core::OpRecord& baseline_op;
  const core::OpRecord& candidate_op;
};

/// Whether two quantised tensors are known to have the same scales and zero points, as far as these
/// are parts of them: true of all other tensors.
bool same_channels(const RecordedPair& pair);

/// Whether the numbers are bytes with elements packed into them, which are equal or not and nothing
/// in between: the part `values` of a tensor of dtype unknown.
bool is_packed_values(const core::OpRecord& record, const core::TensorRecord& tensor);

/// What else of the record lies in the memory of one of its outputs: `input self, output 0`.
std::string shared_with(const core::OpRecord& record, const core::TensorRecord& output);

}  // namespace repro_check::comparators
