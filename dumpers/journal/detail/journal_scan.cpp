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
    case EntryKind::kCallForm:
      decoder_.define_call_form(entry.payload);
      return std::nullopt;
    case EntryKind::kTensorForm:
      decoder_.define_tensor_form(entry.payload);
      return std::nullopt;
    case EntryKind::kEnter:
      return decoder_.entered(entry.payload);
    case EntryKind::kRecord:
      return decoder_.record(entry.payload);
    case EntryKind::kFail:
      return Failure{std::string(ByteReader(entry.payload).rest())};
    case EntryKind::kContent:
      return decode_content(entry.payload);
    case EntryKind::kBegun:
      return Begun{std::string(ByteReader(entry.payload).rest())};
    case EntryKind::kSlice:
      return decode_sliced(entry.payload);
    case EntryKind::kReference: {
      ByteReader bytes(entry.payload);
      const auto high = bytes.get<std::uint64_t>();
      const auto low = bytes.get<std::uint64_t>();
      return Referred{{high, low}, std::string(bytes.rest())};
    }
    case EntryKind::kFinished:
      return Finished{std::string(ByteReader(entry.payload).rest())};
  }
  ByteReader::nonsense("is of a kind nobody knows");
}

std::optional<Event> JournalScan::checked(const Entry& entry) {
  try {
    return take(entry);
  } catch (const core::Error& failure) {
    throw core::Error(
        failure.kind(),
        fmt::format("{}: the entry at byte {} {}", entries_.path(), entry.offset, failure.what()),
        "record the run again");
  }
}

std::optional<Event> JournalScan::next() {
  while (const std::optional<Entry> entry = entries_.next()) {
    begin_ = entry->offset;
    end_ = entry->offset + sizeof(EntryHeader) + entry->payload.size();
    if (std::optional<Event> event = checked(*entry)) return event;
  }
  return std::nullopt;
}

core::OpRecord JournalScan::record_at(std::uint64_t offset) {
  entries_.go_to(offset);
  const std::optional<Entry> entry = entries_.next();
  std::optional<Event> event;
  if (entry && entry->kind == EntryKind::kRecord) event = checked(*entry);
  if (!event) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}: changed while it was read", entries_.path()));
  }
  return std::get<core::OpRecord>(std::move(*event));
}

}  // namespace repro_check::journal
