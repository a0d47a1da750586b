// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/digest/digest.h"
#include "core/trace/dump_sink.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/detail/mapped_log.h"

namespace repro_check::journal {

/// Spells records and entries as payloads. What many of them have in common is written once, as a
/// form, and referred to: a third of the bytes, and what a page of the file costs is the larger
/// part of what a record costs. Operators, sites and forms are numbered as they first appear, and
/// defined in the log before anything refers to them.
class RecordEncoder {
 public:
  explicit RecordEncoder(MappedLog& log) : log_(log) {}

  /// @throws core::Error{kInternal} when the call has more values or tensors than a reader takes
  void encode(const core::OpRecord& record, EntryBuffer& into);
  void encode(const core::OpEntry& entry, EntryBuffer& into);

 private:
  /// Definitions of one kind: their numbers by what they say.
  struct Hash {
    std::size_t operator()(const core::Digest& digest) const noexcept { return digest.low; }
  };
  using Numbers = std::unordered_map<core::Digest, std::uint32_t, Hash>;

  /// An object kept alive, so that its address is proof enough when it comes again.
  struct Pin {
    std::uint64_t reference = kNothing;
    std::shared_ptr<const void> object;
  };
  /// A pin looked up lately: a record asks for what its entry has just asked for.
  struct RecentPin {
    const void* object = nullptr;
    std::uint64_t reference = kNothing;
  };
  // What stood at a place last, which is mostly what stands there again. The first ones refer to
  // nothing: they are like nothing.
  struct RecentCall {
    std::uint64_t reference = kNothing;
    std::string form;
  };
  struct RecentTensor {
    std::uint64_t reference = kNothing;
    core::TensorRecord tensor;
  };

  /// By address where it is known, else by content.
  template <typename Object>
  std::uint64_t refer(EntryKind kind, const Object* object);
  template <typename Object>
  std::uint64_t refer(EntryKind kind, const std::shared_ptr<const Object>& object);
  std::uint64_t pinned(const void* object);
  void pin(std::shared_ptr<const void> object, std::uint64_t reference);
  // Apart, so that what runs for every record stays short.
  template <typename Object>
  [[gnu::noinline]] std::uint64_t define_object(EntryKind kind, const Object& object);
  [[gnu::noinline]] std::uint64_t define(EntryKind kind,
                                         std::string_view body,
                                         const core::Digest& digest);
  std::uint64_t put_form(EntryBuffer& into);
  void put_call_form(RecentCall& recent, EntryBuffer& into);
  void put_tensor_form(const core::TensorRecord& tensor, RecentTensor& recent, EntryBuffer& into);

  MappedLog& log_;
  EntryBuffer body_;  ///< of an operator or a site, without its number: what makes it the same
  EntryBuffer definition_;
  EntryBuffer form_;
  std::array<Numbers, kLastDefinition + 1> numbers_;  ///< by kind
  std::unordered_map<const void*, Pin> pins_;
  std::array<RecentPin, 64> recent_pins_;
  std::array<RecentCall, 64> recent_calls_;
  std::array<RecentTensor, 256> recent_tensors_;
};

}  // namespace repro_check::journal
