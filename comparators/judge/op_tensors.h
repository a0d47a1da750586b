// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

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

}  // namespace repro_check::comparators::detail
