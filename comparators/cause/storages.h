// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "comparators/align/piece_vector.h"
#include "core/system/id_slots.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// Something a storage of one run. An operator may have a storage of its own, so that a trace of a
/// million operators has a million of these.
template <typename Value>
class StorageMap {
 public:
  /// Made where there is none yet.
  Value& operator[](std::int64_t storage) {
    const auto known = static_cast<std::uint32_t>(entries_.size());
    const std::uint32_t id = slots_.find_or_add(
        hash(storage),
        known,
        [&](std::uint32_t other) { return entries_[other].storage == storage; },
        [&](std::uint32_t other) { return hash(entries_[other].storage); });
    if (id == known) entries_.push_back({storage, {}});
    return entries_[id].value;
  }

  /// Null where there is none.
  [[nodiscard]] const Value* find(std::int64_t storage) const {
    const auto id = slots_.find(
        hash(storage), [&](std::uint32_t other) { return entries_[other].storage == storage; });
    return id ? &entries_[*id].value : nullptr;
  }

  /// Shows every value, in the order in which they were made.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    entries_.for_each([&](const Entry& entry) { visit(entry.value); });
  }

 private:
  struct Entry {
    std::int64_t storage = 0;
    Value value{};
  };

  /// Storages are mostly numbered as they come, and then each has a slot of its own beside its
  /// neighbour's. Numbers far apart are mixed, so that few fall together.
  static std::size_t hash(std::int64_t storage) noexcept {
    const auto number = static_cast<std::uint64_t>(storage);
    const std::uint64_t mixed = (number >> 24U) * 0x9E37'79B9'7F4A'7C15U;
    return number + (mixed ^ (mixed >> 32U));
  }

  core::IdSlots slots_;
  PieceVector<Entry> entries_;
};

/// What was last written to each storage of one run, to notice a value that changed although no
/// operator wrote it. 40 bytes a storage, twice that of those that came to differ.
class WriteTable {
 public:
  /// To be told every record, in the order in which calls ended.
  /// @param differs  whether some output is not that of the other run
  void see(const core::OpRecord& record, bool differs);

  /// Whether `input` is seen through the view that its producer returned, and holds something else
  /// than it returned. False where that cannot be told.
  [[nodiscard]] bool contradicts(const core::TensorRecord& input) const;
  /// The last operator that wrote something else into the storage than its counterpart, and whose
  /// view of it no other has written since; kNoProducer where there is none.
  [[nodiscard]] std::int64_t differing_writer(const core::TensorRecord& tensor) const;

 private:
  struct Write {
    std::int64_t producer = core::kNoProducer;
    std::uint64_t view = 0;  ///< dtype, shape, strides and offset
    core::Digest content;
  };
  StorageMap<Write> writes_;
  StorageMap<Write> differing_;
};

/// Finds the operators whose values no later operator of the trace reads: what the model returned,
/// and state that it wrote. Views are followed through their storage. A bit an operator and 16
/// bytes a storage.
class FinalValues {
 public:
  /// To be told every record of one run, in the order in which calls ended.
  void see(const core::OpRecord& record);

  /// Op indices, ascending.
  [[nodiscard]] core::LargeVector<std::uint64_t> ops() const;

 private:
  void mark_read(std::uint64_t op);

  StorageMap<std::uint64_t> holder_;  ///< who returned it last
  core::LargeVector<bool> read_;      ///< by op
};

/// The first argument that is memory of which not all has been written, and that the operator
/// reads; null where there is none. What only takes its shape, shows it otherwise or writes it does
/// not read it, and neither is it known of what picks elements (`index_select`).
const core::TensorRecord* unwritten_argument(const core::OpRecord& record);

/// Whether an argument is such memory, and the operator reads it or picks elements of it.
bool may_read_unwritten(const core::OpRecord& record);

/// Who allocated memory that nobody had written yet, in one run.
class Allocations {
 public:
  /// To be told every record, in the order in which they ended.
  void see(const core::OpRecord& record);

  /// `` `self` is memory that op 3 aten::empty allocated and that no operator has written since``;
  /// empty where a call inside an operator allocated it, or nobody did.
  /// @param dump  of the run
  [[nodiscard]] std::string describe(const core::TensorRecord& tensor,
                                     const core::DumpSource& dump) const;

 private:
  StorageMap<std::int64_t> allocators_;  ///< op indices
};

}  // namespace repro_check::comparators::detail
