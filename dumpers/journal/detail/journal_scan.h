// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "dumpers/journal/detail/entry_reader.h"
#include "dumpers/journal/detail/record_decoder.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// Gives the events of a journal; definitions are taken in on the way.
class JournalScan {
 public:
  /// @throws as JournalReader
  explicit JournalScan(const std::filesystem::path& file) : entries_(file) {}

  std::optional<Event> next();

  /// Of the entry that made the last event: where it begins, and where its payload ends.
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

  /// Reads the record at an offset that begin() has said.
  /// @throws core::Error{kDumpDamaged} when it is no longer there
  core::OpRecord record_at(std::uint64_t offset);

 private:
  std::optional<Event> take(const Entry& entry);

  std::optional<Event> checked(const Entry& entry);

  EntryReader entries_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  RecordDecoder decoder_;
};

}  // namespace repro_check::journal
