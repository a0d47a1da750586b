// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/journal_scan.h"

#include <fmt/format.h>

#include "core/error.h"
#include "dumpers/journal/detail/content_entry.h"

namespace repro_check::journal {

std::optional<Event> JournalScan::take(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kString:
      decoder_.define_text(entry.payload);
      return std::nullopt;
    case EntryKind::kOperator:
      decoder_.define_op(entry.payload);
      return std::nullopt;
    case EntryKind::kSite:
      decoder_.define_site(entry.payload);
      return std::nullopt;
    case EntryKind::kEnter:
      return decoder_.entered(entry.payload);
    case EntryKind::kRecord:
      return decoder_.record(entry.payload);
    case EntryKind::kFail:
      return Failure{std::string(ByteReader(entry.payload).rest())};
    case EntryKind::kContent:
      return decode_content(entry.payload);
    case EntryKind::kFinished:
      return Finished{std::string(ByteReader(entry.payload).rest())};
  }
  ByteReader::nonsense("is of a kind nobody knows");
}

std::optional<Event> JournalScan::next() {
  while (const std::optional<Entry> entry = entries_.next()) {
    try {
      if (std::optional<Event> event = take(*entry)) return event;
    } catch (const core::Error& failure) {
      throw core::Error(
          failure.kind(),
          fmt::format(
              "{}: the entry at byte {} {}", entries_.path(), entry->offset, failure.what()),
          "record the run again");
    }
  }
  return std::nullopt;
}

}  // namespace repro_check::journal
