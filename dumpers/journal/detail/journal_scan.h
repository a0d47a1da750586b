// SPDX-License-Identifier: Apache-2.0
#pragma once

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

 private:
  std::optional<Event> take(const Entry& entry);

  EntryReader entries_;
  RecordDecoder decoder_;
};

}  // namespace repro_check::journal
