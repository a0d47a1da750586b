// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/dump_sink.h"
#include "core/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/interner.h"

namespace repro_check::journal {

/// Spells records and entries as payloads. What many of them have in common is written once, as a
/// form, and referred to: a third of the bytes, and what a page of the file costs is the larger
/// part of what a record costs. Texts, objects and forms that are new are defined in the log on the
/// way.
class RecordEncoder {
 public:
  explicit RecordEncoder(MappedLog& log) : interner_(log) {}

  /// @throws core::Error{kInternal} when the call has more values or tensors than a reader takes
  void encode(const core::OpRecord& record, EntryBuffer& into);
  void encode(const core::OpEntry& entry, EntryBuffer& into);

 private:
  bool encode_call_form(const core::OpRecord& record, std::uint32_t op);

  Interner interner_;
  EntryBuffer form_;
  EntryBuffer scalars_;
};

}  // namespace repro_check::journal
