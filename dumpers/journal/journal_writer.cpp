// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <bit>

#include "core/content/content_size.h"
#include "core/error.h"
#include "dumpers/journal/detail/entry_fields.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

JournalWriter::JournalWriter(const std::filesystem::path& file) : log_(file) {
  log_.append(std::bit_cast<std::array<std::byte, sizeof(FileHeader)>>(FileHeader{}));
}

void JournalWriter::append(const core::OpRecord& record) {
  put(record);
  ++operators_;
  returned_ += core::is_returned(record) ? 1U : 0U;
  tensors_ += record.tensors.size();
}

void JournalWriter::check_counts(const core::TraceSummary& trace) const {
  if (trace.operators == operators_ && trace.returned == returned_ && trace.tensors == tensors_) {
    return;
  }
  throw core::Error(core::ErrorKind::kInternal,
                    fmt::format("the recorder counted {} operators, {} of them returned values, "
                                "and {} tensors, the journal {}, {} and {}",
                                trace.operators,
                                trace.returned,
                                trace.tensors,
                                operators_,
                                returned_,
                                tensors_));
}

void JournalWriter::text(EntryKind kind, std::string_view bytes) {
  entry_.begin(kind);
  entry_.put_bytes(bytes);
  log_.append(entry_.finish());
}

/// Often called because the disk is full, so it must manage without growing the file.
void JournalWriter::fail(std::string_view message) {
  constexpr std::size_t kFrame = sizeof(EntryHeader) + kAlignment;
  try {
    return text(EntryKind::kFail, message);
  } catch (const core::Error&) {
    const std::size_t room = log_.last_room();
    if (room <= kFrame) return;
    entry_.begin(EntryKind::kFail);
    entry_.put_bytes(message.substr(0, room - kFrame));
  }
  try {
    log_.append_last(entry_.finish());
  } catch (const core::Error&) {
    // The file is closed: there is nowhere to say it.
  }
}

void JournalWriter::content(const core::ContentKey& key, std::span<const std::byte> bytes) {
  const StoredContent content{key, ContentPlace::kInline, 0, core::content_size(key), bytes};
  if (bytes.size() > kLargestInline || bytes.size() != content.size) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format("content {} was handed {} bytes", core::content_name(key), bytes.size()));
  }
  entry_.begin(EntryKind::kContent);
  content_fields(entry_, content);
  entry_.put_bytes(bytes);
  log_.append(entry_.finish());
}

void JournalWriter::content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
  const StoredContent content{key, place, offset, core::content_size(key), {}};
  entry_.begin(EntryKind::kContent);
  content_fields(entry_, content);
  log_.append(entry_.finish());
}

void JournalWriter::refers(const Referred& dump) {
  entry_.begin(EntryKind::kReference);
  entry_(dump.index_digest, dump.run_name);
  log_.append(entry_.finish());
}

void JournalWriter::sliced(const SlicedContent& content) {
  entry_.begin(EntryKind::kSlice);
  sliced_fields(entry_, content);
  log_.append(entry_.finish());
}

}  // namespace repro_check::journal
