// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "core/error.h"
#include "dumpers/journal/detail/content_entry.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/detail/mapped_log.h"
#include "dumpers/journal/detail/record_encoder.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

class JournalWriter::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : log_(file), encoder_(log_) {
    const auto header = std::bit_cast<std::array<std::byte, sizeof(FileHeader)>>(FileHeader{});
    log_.append(header);
  }

  void enter(const core::OpEntry& entry) {
    encoder_.encode(entry, entry_);
    log_.append(entry_.finish());
  }

  void append(const core::OpRecord& record) {
    encoder_.encode(record, entry_);
    log_.append(entry_.finish());
  }

  /// Often called because the disk is full, so it must manage without growing the file.
  void fail(const std::string& message) {
    constexpr std::size_t kFrame = sizeof(EntryHeader) + kAlignment;
    if (put_failure(message, true)) return;
    const std::size_t room = log_.last_room();
    if (room <= kFrame) return;
    put_failure(std::string_view(message).substr(0, room - kFrame), false);
  }

  void content(const core::ContentKey& key, std::span<const std::byte> bytes) {
    encode_inline(key, bytes, entry_);
    log_.append(entry_.finish());
  }

  void content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
    encode_elsewhere(key, place, offset, entry_);
    log_.append(entry_.finish());
  }

  void text(EntryKind kind, std::string_view bytes) {
    entry_.begin(kind);
    entry_.put_bytes(bytes);
    log_.append(entry_.finish());
  }

  void refers(const Referred& dump) {
    entry_.begin(EntryKind::kReference);
    entry_.put(dump.index_digest.high);
    entry_.put(dump.index_digest.low);
    entry_.put_bytes(std::string_view(dump.run_name));
    log_.append(entry_.finish());
  }

  void sliced(const SlicedContent& content) {
    encode_sliced(content, entry_);
    log_.append(entry_.finish());
  }

  void close() { log_.close(); }

 private:
  bool put_failure(std::string_view message, bool may_grow) {
    entry_.begin(EntryKind::kFail);
    entry_.put_bytes(message);
    try {
      if (may_grow) {
        log_.append(entry_.finish());
      } else {
        log_.append_last(entry_.finish());
      }
      return true;
    } catch (const core::Error&) {
      return false;
    }
  }

  MappedLog log_;
  RecordEncoder encoder_;
  EntryBuffer entry_;
};

JournalWriter::JournalWriter(const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(file)) {}

JournalWriter::~JournalWriter() = default;

void JournalWriter::enter(const core::OpEntry& entry) { impl_->enter(entry); }
void JournalWriter::append(const core::OpRecord& record) { impl_->append(record); }
void JournalWriter::fail(const std::string& message) { impl_->fail(message); }
void JournalWriter::content(const core::ContentKey& key, std::span<const std::byte> bytes) {
  impl_->content(key, bytes);
}
void JournalWriter::content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
  impl_->content(key, place, offset);
}
void JournalWriter::refers(const Referred& dump) { impl_->refers(dump); }
void JournalWriter::sliced(const SlicedContent& content) { impl_->sliced(content); }
void JournalWriter::begun(std::string_view manifest) { impl_->text(EntryKind::kBegun, manifest); }
void JournalWriter::finished(std::string_view manifest) {
  impl_->text(EntryKind::kFinished, manifest);
}
void JournalWriter::close() { impl_->close(); }

}  // namespace repro_check::journal
