// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor/tensor_record.h"
#include "dumpers/journal/detail/byte_reader.h"
#include "dumpers/journal/detail/entry_buffer.h"

namespace repro_check::journal {

/// What a tensor has in common with those at the same place of other calls.
struct TensorForm {
  core::TensorRecord tensor;
  bool has_digest = false;
  bool has_stats = false;
  bool has_non_finite = false;
};

/// Whether both records have one form; compares what encode_tensor_form() writes.
bool same_tensor_form(const core::TensorRecord& left, const core::TensorRecord& right) noexcept;

/// @return whether the form is small enough to be shared
bool encode_tensor_form(const core::TensorRecord& tensor, EntryBuffer& form);
/// What the form leaves out. @param index  of the op, which most producers are close to
void encode_tensor_rest(const core::TensorRecord& tensor, std::uint64_t index, EntryBuffer& into);

/// @throws core::Error{kDumpDamaged}
TensorForm decode_tensor_form(ByteReader& form);
core::TensorRecord decode_tensor(const TensorForm& form, std::uint64_t index, ByteReader& bytes);

}  // namespace repro_check::journal
