// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "core/op_record.h"
#include "dumpers/journal/detail/entry_reader.h"
#include "dumpers/journal/detail/record_decoder.h"

namespace repro_check::journal {

struct Failure {
  std::string message;
};

/// What happened in a recording, in order; definitions are taken in on the way.
using Event = std::variant<core::OpRecord, EnteredOp, Failure>;

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
