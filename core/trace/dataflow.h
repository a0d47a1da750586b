// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::core {

/// Where the value of an argument came from, as far as the trace knows.
enum class SourceKind {
  kOperator,  ///< an operator of the trace wrote it last
  kInput,     ///< a forward argument of the model
  kState,     ///< a parameter or buffer of the model
  kConstant,  ///< nothing in the trace, and the front end did not name it
};

struct TensorSource {
  SourceKind kind = SourceKind::kConstant;
  std::uint64_t op = 0;   ///< of kOperator: its op index
  std::string_view name;  ///< of kInput and kState, without its prefix; borrowed from the record
};

/// What TensorRecord::name says; never kOperator.
TensorSource named_source(std::string_view name) noexcept;

/// An operator of the trace before a name: what it wrote, the name no longer describes.
TensorSource tensor_source(const TensorRecord& tensor) noexcept;

/// Whether two records show the same elements of a storage in the same way: dtype, shape, strides
/// and offset. The storages are not looked at.
bool is_same_view(const TensorRecord& one, const TensorRecord& other) noexcept;

/// The output of `producer` that a later argument shows: one of the same storage that it wrote,
/// seen through the same view where there is one. Null when it wrote memory that it did not return.
/// Borrowed from `producer`.
const TensorRecord* written_output(const OpRecord& producer, const TensorRecord& argument) noexcept;

/// The output of `op` whose value `argument` shows, if any: what `op` wrote and nobody has written
/// since, or the view that it made of memory that another operator wrote. Borrowed from `op`.
const TensorRecord* read_output(const OpRecord& op, const TensorRecord& argument) noexcept;

/// Called with the reading operator, its argument and the output of `op` that this shows.
using EachReader =
    std::function<void(const OpRecord& reader, const TensorRecord& argument, const TensorRecord&)>;

/// Every argument of a later operator that shows an output of `op`, in trace order. Reads the rest
/// of the trace.
/// @throws Error{kDumpDamaged}
void for_each_reader(const DumpSource& dump, const OpRecord& op, const EachReader& each);

}  // namespace repro_check::core
