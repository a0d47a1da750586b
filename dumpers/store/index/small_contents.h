// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "dumpers/journal/journal_event.h"
#include "dumpers/store/file/content_datasets.h"
#include "dumpers/store/file/hdf5_handle.h"
#include "dumpers/store/index/table_writer.h"

namespace repro_check::store {

/// Takes over the contents that a journal holds: each into a dataset of its own, for people who
/// browse, or, where there are too many for that, all into `/packed`.
class SmallContents {
 public:
  /// @param file      of the trace; borrowed, as is `datasets`
  /// @param contents  how many will come
  /// @param bytes     and how large they are together
  SmallContents(hid_t file,
                const ContentDatasets& datasets,
                bool packed,
                std::uint64_t contents,
                std::uint64_t bytes,
                const Blame& blame);

  void add(const journal::StoredContent& content);

  /// Whether all came that were announced.
  [[nodiscard]] bool whole() const noexcept { return contents_ == 0 && bytes_ == 0; }
  void finish();

 private:
  const ContentDatasets& datasets_;
  std::uint64_t contents_;  ///< still to come
  std::uint64_t bytes_;
  std::optional<TableWriter> packed_;
};

}  // namespace repro_check::store
