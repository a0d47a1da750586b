// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::core {

/// The record of an operator, if the dump holds all the values that a call of it needs. An argument
/// that was memory nobody had written is let pass where the operator writes that memory.
/// @throws Error{kNotComparable} naming the argument whose values it does not hold, and what to
///         record; Error{kDumpDamaged}, also where a storage of its arguments would take more than
///         1 GiB and 64 times the values that the dump holds of it
OpRecord require_replayable(const DumpSource& dump, std::uint64_t op);

/// Whether a tensor is made of the parts that follow it: a sparse or a nested one. It has no
/// storage of its own.
bool is_composed(const TensorRecord& tensor);

/// Elements of one storage that the arguments of a call show, from the lowest one on.
struct InputStorage {
  std::int64_t storage = -1;  ///< as in the records
  Dtype dtype = Dtype::kUnknown;
  std::int64_t first = 0;  ///< offset in the storage; a multiple of 64, so that alignment is kept
  std::int64_t count = 0;  ///< elements
  std::vector<std::uint32_t> tensors;  ///< positions in OpRecord::tensors, in order
};

/// The storages behind the arguments of a record; arguments that shared one share one here, unless
/// they showed its elements as other numbers: a lazily conjugated tensor gets a storage of its own.
/// @param op  as require_replayable() gives it
/// @throws Error{kNotComparable} when the operator writes memory that is shown in two dtypes or as
///         other numbers; Error{kDumpDamaged}
std::vector<InputStorage> input_storages(const DumpSource& dump, const OpRecord& op);

/// Content of such a storage: the arguments' elements at their places, zero between them. Memory
/// that nobody had written is all bits set for floating dtypes (a NaN) and zero for the others.
/// @throws Error{kDumpDamaged}
std::vector<std::byte> read_input_storage(const DumpSource& dump,
                                          const OpRecord& op,
                                          const InputStorage& storage);

}  // namespace repro_check::core
