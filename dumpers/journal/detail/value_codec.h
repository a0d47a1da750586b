// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/trace/value.h"
#include "dumpers/journal/detail/byte_reader.h"
#include "dumpers/journal/detail/entry_buffer.h"

namespace repro_check::journal {

/// Splits a value in two: its form, which is the same from call to call (kinds, lists, tensors,
/// names), and its scalars, which need not be.
class ValueEncoder {
 public:
  /// @param form, scalars  borrowed; added to
  ValueEncoder(EntryBuffer& form, EntryBuffer& scalars) noexcept : form_(form), scalars_(scalars) {}

  void encode(const core::Value& value);

  /// Values so far, those in lists included.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  class Visitor;

  EntryBuffer& form_;
  EntryBuffer& scalars_;
  std::size_t count_ = 0;
};

/// A value with every scalar at its default.
/// @param tensors  of the record: a slot beyond is refused
/// @param budget   values that may still come; counted down
/// @throws core::Error{kDumpDamaged}
core::Value decode_value_form(ByteReader& form, std::size_t tensors, std::size_t& budget);

/// Fills in the scalars of what decode_value_form has made. @throws core::Error{kDumpDamaged}
void fill_scalars(core::Value& value, ByteReader& scalars);

}  // namespace repro_check::journal
