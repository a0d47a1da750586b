// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/tensor/tensor_record.h"
#include "dumpers/store/file/hdf5.h"

namespace repro_check::store {

/// How we open HDF5 files: without its file locks. Our own tell recordings apart, and read-only and
/// network file systems have none.
PropertyHandle file_access(const Blame& blame);

/// A new trace.h5 with its format attributes; big datasets will start at a multiple of
/// kDirectBlock.
FileHandle create_trace(const std::filesystem::path& file, const Blame& blame);

/// A group that does not remember when it was made: a dump depends on what was recorded only.
GroupHandle make_group(hid_t parent, const std::string& name, const Blame& blame);

/// `1.0`, the version that create_trace writes.
std::string format_version();

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
