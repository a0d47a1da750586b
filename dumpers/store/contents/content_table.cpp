// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/content_table.h"

#include <algorithm>

namespace repro_check::store {
namespace {

std::size_t hash_of(const core::Digest& digest, core::Dtype dtype) noexcept {
  return static_cast<std::size_t>(digest.low ^ static_cast<std::uint64_t>(dtype));
}

}  // namespace

std::span<const std::int64_t> ContentTable::shape_of(const Entry& entry) const {
  return std::span(dims_).subspan(entry.shape_begin, entry.shape_count);
}

bool ContentTable::is(const Entry& entry, const Wanted& wanted) const {
  return entry.digest == wanted.digest && entry.dtype == wanted.dtype &&
         std::ranges::equal(shape_of(entry), wanted.shape);
}

bool ContentTable::add(const core::ContentKey& key, std::int64_t place) {
  const Wanted wanted{key.digest, key.shape, key.dtype};
  const auto known = static_cast<std::uint32_t>(entries_.size());
  const std::uint32_t id = slots_.find_or_add(
      hash_of(key.digest, key.dtype),
      known,
      [&](std::uint32_t other) { return is(entries_[other], wanted); },
      [&](std::uint32_t other) { return hash_of(entries_[other].digest, entries_[other].dtype); });
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

std::optional<std::int64_t> ContentTable::find(const Wanted& wanted) const {
  const auto id = slots_.find(hash_of(wanted.digest, wanted.dtype),
                              [&](std::uint32_t other) { return is(entries_[other], wanted); });
  return id ? std::optional(entries_[*id].place) : std::nullopt;
}

std::optional<std::int64_t> ContentTable::find(const core::ContentKey& key) const {
  return find(Wanted{key.digest, key.shape, key.dtype});
}

std::optional<std::int64_t> ContentTable::find(const core::TensorRecord& tensor) const {
  return find(Wanted{tensor.digest, tensor.shape, tensor.dtype});
}

}  // namespace repro_check::store
