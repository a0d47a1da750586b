// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "core/digest/digest.h"
#include "core/system/id_slots.h"
#include "core/system/large_memory.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::store {

/// Where each content of a dump lies, in 32 bytes a content and a few more for its shape: there is
/// one for every tensor of a dump, at worst.
class ContentTable {
 public:
  /// @param place  as ContentRow::packed says it
  /// @return false for a content that is there already, whose first place holds
  bool add(const core::ContentKey& key, std::int64_t place) {
    const auto known = static_cast<std::uint32_t>(entries_.size());
    const std::uint32_t id = slots_.find_or_add(
        hash_of(key),
        known,
        [&](std::uint32_t other) { return is(entries_[other], key); },
        [&](std::uint32_t other) { return hash_of(entries_[other]); });
    if (id != known) return false;
    Entry entry{key.digest, place, 0, static_cast<std::uint16_t>(key.shape.size()), key.dtype};
    // Neighbours often have one shape.
    if (!entries_.empty() && std::ranges::equal(shape_of(entries_.back()), key.shape)) {
      entry.shape_begin = entries_.back().shape_begin;
    } else {
      entry.shape_begin = static_cast<std::uint32_t>(dims_.size());
      dims_.insert(dims_.end(), key.shape.begin(), key.shape.end());
    }
    entries_.push_back(entry);
    return true;
  }

  /// @param wanted  a key, or the record of a tensor, which has to be copied for nothing here
  template <typename Content>
  [[nodiscard]] std::optional<std::int64_t> find(const Content& wanted) const {
    const auto id = slots_.find(hash_of(wanted),
                                [&](std::uint32_t other) { return is(entries_[other], wanted); });
    return id ? std::optional(entries_[*id].place) : std::nullopt;
  }

 private:
  struct Entry {
    core::Digest digest;
    std::int64_t place = 0;
    std::uint32_t shape_begin = 0;
    std::uint16_t shape_count = 0;
    core::Dtype dtype = core::Dtype::kUnknown;
  };

  template <typename Content>
  static std::size_t hash_of(const Content& content) noexcept {
    return static_cast<std::size_t>(content.digest.low ^ static_cast<std::uint64_t>(content.dtype));
  }
  template <typename Content>
  [[nodiscard]] bool is(const Entry& entry, const Content& wanted) const {
    return entry.digest == wanted.digest && entry.dtype == wanted.dtype &&
           std::ranges::equal(shape_of(entry), wanted.shape);
  }
  [[nodiscard]] std::span<const std::int64_t> shape_of(const Entry& entry) const {
    return std::span(dims_).subspan(entry.shape_begin, entry.shape_count);
  }

  core::IdSlots slots_;
  core::LargeVector<Entry> entries_;
  core::LargeVector<std::int64_t> dims_;
};

}  // namespace repro_check::store
