// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/trace/dump_sink.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/interner.h"
#include "dumpers/journal/detail/journal_format.h"

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
  // What stood at a place last, which is mostly what stands there again. The first ones refer to
  // nothing: they are like nothing.
  struct RecentCall {
    std::uint64_t reference = kFormFollows;
    std::string form;
  };
  struct RecentTensor {
    std::uint64_t reference = kFormFollows;
    core::TensorRecord form;
  };

  bool encode_call_form(const core::OpRecord& record, std::uint32_t op);
  void put_call_form(bool shared, RecentCall& recent, EntryBuffer& into);
  void put_tensor_form(const core::TensorRecord& tensor, RecentTensor& recent, EntryBuffer& into);

  Interner interner_;
  EntryBuffer form_;
  EntryBuffer scalars_;
  std::array<RecentCall, 64> recent_calls_;
  std::array<RecentTensor, 256> recent_tensors_;
};

}  // namespace repro_check::journal
