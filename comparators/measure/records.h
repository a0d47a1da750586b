// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/report.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/record_tensors.h"

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

/// Whether a value is a tensor, or a list of nothing but tensors.
bool is_tensor(const core::Value& value);

/// A scalar as a report shows it, cut where it is long.
std::string short_text(const core::Value& value);

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

/// Whether both have one dtype, shape, layout and structure or quantiser.
bool same_form(const core::TensorRecord& left, const core::TensorRecord& right);

/// Whether the tensor has values that the recording could not read: an opaque layout, a dtype whose
/// numbers LibTorch does not give out. A tensor on `meta` has none.
bool has_unread_values(const core::TensorRecord& tensor) noexcept;

/// Whether there was content that no one has read: of a class of the program's, or of a dtype that
/// cannot be read. Dumps before version 1.4 do not tell such a class from a view or a mere shape.
bool was_never_read(const core::TensorRecord& tensor) noexcept;

/// Whether two tensors have one structure, or quantiser; where a dump does not name a class, any is
/// the same.
bool same_attributes(const core::TensorRecord& left, const core::TensorRecord& right) noexcept;

/// `float32 [2, 3]`
std::string dtype_and_shape(core::Dtype dtype, const std::vector<std::int64_t>& shape);

/// What the metrics say beside numbers: `only zero signs differ`, `NaN in baseline only`; empty
/// when the numbers say it all.
Phrases describe_metrics(const TensorMetrics& metrics);

/// The tensors of one role, in the order of the record, which is borrowed.
std::vector<const core::TensorRecord*> tensors_of(const core::OpRecord& record,
                                                  core::TensorRole role);

/// A record of named values with some of them alone, in this order, and with their tensors.
/// @param places  among its arguments
core::OpRecord with_values(const core::OpRecord& record, std::span<const std::size_t> places);

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

}  // namespace repro_check::comparators
