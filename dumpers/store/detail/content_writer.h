// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/tensor_record.h"
#include "dumpers/store/detail/element_types.h"
#include "dumpers/store/detail/hdf5_handle.h"
#include "dumpers/store/detail/hdf5_scope.h"

namespace repro_check::store {

/// Dataset creation for all we write: contiguous, allocated at once, never filled.
PropertyHandle contiguous_creation(const Blame& blame);

struct ContentKeyHash {
  std::size_t operator()(const core::ContentKey& key) const noexcept {
    return static_cast<std::size_t>(key.digest.low ^ static_cast<std::uint64_t>(key.dtype));
  }
};

/// Writes contents into the group `/content`, each key once. Small ones are kept in memory and
/// written together: creating a dataset costs more than the operator that made a small tensor.
class ContentWriter {
 public:
  /// @param group  borrowed
  ContentWriter(hid_t group, Blame blame);

  [[nodiscard]] bool has(const core::ContentKey& key) const { return known_.contains(key); }
  void put(const core::ContentKey& key, std::span<const std::byte> bytes);
  /// Writes what is still in memory.
  void flush();

  /// In order of arrival.
  [[nodiscard]] std::span<const core::ContentKey* const> keys() const noexcept { return keys_; }
  /// Readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

 private:
  struct Pending {
    const core::ContentKey* key;
    std::size_t offset;
    std::size_t size;
  };

  void write(const core::ContentKey& key, std::span<const std::byte> bytes) const;

  hid_t group_;
  Blame blame_;
  ElementTypes types_;
  PropertyHandle creation_;
  std::unordered_set<core::ContentKey, ContentKeyHash> known_;
  std::vector<const core::ContentKey*> keys_;  ///< into known_
  std::vector<std::byte> arena_;
  std::vector<Pending> pending_;
  std::atomic<std::uint64_t> stored_bytes_{0};
};

}  // namespace repro_check::store
