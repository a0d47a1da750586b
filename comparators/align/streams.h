// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comparators/align/piece_vector.h"
#include "core/system/id_slots.h"
#include "core/system/large_memory.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// What keeps an order of its own: calls of one lane of one rank.
struct StreamId {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const StreamId&) const = default;
};

/// Op indices of one dump by stream: 12 bytes a record, in how many streams they ever are.
class Streams {
 public:
  /// Adds the record with the next op index.
  /// @param head      rank and lane are all that is looked at
  /// @param left_out  it belongs to no stream
  void add(const core::OpRecord& head, bool left_out);

  /// To be called once, after the last add().
  void finish();

  /// The rest after finish(): streams by rank and lane, op indices ascending.
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  [[nodiscard]] StreamId id(std::size_t stream) const { return ids_[order_[stream]]; }
  [[nodiscard]] std::span<const std::uint32_t> ops(std::size_t stream) const;
  /// Distinct, sorted.
  [[nodiscard]] core::LargeVector<std::uint32_t> ranks() const;

 private:
  static constexpr std::uint32_t kNoStream = UINT32_MAX;

  std::uint32_t number_of(const StreamId& id);

  core::IdSlots slots_;
  PieceVector<StreamId> ids_;             ///< by number, in which streams were met
  PieceVector<std::uint32_t> stream_of_;  ///< by op index a number, or kNoStream
  std::uint32_t last_ = kNoStream;
  core::LargeVector<std::uint32_t> order_;   ///< numbers, by rank and lane
  core::LargeVector<std::uint32_t> ops_;     ///< stream after stream, in that order
  core::LargeVector<std::uint32_t> begins_;  ///< of each in ops_, and the end of the last
};

}  // namespace repro_check::comparators::detail
