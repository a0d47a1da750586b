// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor/tensor_record.h"
#include "dumpers/store/file/element_types.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/file/hdf5_scope.h"

namespace repro_check::store {

/// Dataset creation for all we write: contiguous, allocated at once, never filled.
PropertyHandle contiguous_creation(const Blame& blame);

/// Makes the datasets of the group `/content`.
class ContentDatasets {
 public:
  /// @param group  borrowed
  ContentDatasets(hid_t group, Blame blame);

  /// A dataset whose bytes somebody else writes.
  /// @param key  of at least one byte
  /// @return where in the file they belong
  [[nodiscard]] std::uint64_t allocate(const core::ContentKey& key) const;

  /// @param to  of the same dtype and shape, and not there yet
  void rename(const core::ContentKey& from, const core::ContentKey& to) const;
  /// Its room is given to others.
  void remove(const core::ContentKey& key) const;

  /// A dataset with its bytes.
  void write(const core::ContentKey& key, std::span<const std::byte> bytes) const;

 private:
  [[nodiscard]] DatasetHandle create(const core::ContentKey& key, const Blame& blame) const;
  [[nodiscard]] Blame blame_for(const core::ContentKey& key) const;

  hid_t group_;
  Blame blame_;
  ElementTypes types_;
  PropertyHandle creation_;
};

}  // namespace repro_check::store
