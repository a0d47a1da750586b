// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump_sink.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/entry_reader.h"
#include "dumpers/journal/detail/mapped_log.h"
#include "dumpers/journal/detail/record_encoder.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// The files of a recording, in its directory.
inline constexpr const char* kJournalName = "journal.bin";
inline constexpr const char* kContentsName = "contents.bin";

/// Contents up to this size belong into the journal; it takes none above kLargestInline.
inline constexpr std::size_t kSmallContent = std::size_t{32} << 10U;
inline constexpr std::size_t kLargestInline = std::size_t{16} << 20U;

/// Append-only file of one recording. Every entry carries its length and checksum, and goes into a
/// shared mapping of the file, so that what was appended survives the death of the process at any
/// instant without a system call an entry. The format is in docs/DUMP_FORMAT.md.
class JournalWriter {
 public:
  /// @throws core::Error{kIo}; an existing file is refused
  explicit JournalWriter(const std::filesystem::path& file);

  /// @throws core::Error{kIo} when the disk is full
  void enter(const core::OpEntry& entry) { put(entry); }
  void append(const core::OpRecord& record);
  void fail(std::string_view message);

  /// Keeps a content in the journal itself.
  /// @param bytes  as many as dtype and shape make, and no more than kLargestInline
  void content(const core::ContentKey& key, std::span<const std::byte> bytes);
  /// Notes where the bytes of a content are, or will be: the entry may come before they do.
  /// @param place  not kInline
  void content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset);
  /// Names the dump that contents of the place kReference are in; before the first of them.
  void refers(const Referred& dump);
  /// Notes that of a content only a slice is kept, behind the content that the slice is.
  void sliced(const SlicedContent& content);
  /// What is known of the run before its first operator.
  void begun(std::string_view manifest) { text(EntryKind::kBegun, manifest); }
  /// The last entry: the recording is whole.
  void finished(std::string_view manifest) { text(EntryKind::kFinished, manifest); }

  /// Holds what the recorder counted against what was appended.
  /// @throws core::Error{kInternal} where they differ
  void check_counts(const core::TraceSummary& trace) const;

  /// Cuts the file to what was written.
  void close() { log_.close(); }

 private:
  template <typename Call>
  void put(const Call& call) {
    encoder_.encode(call, entry_);
    log_.append(entry_.finish());
  }
  void text(EntryKind kind, std::string_view bytes);

  MappedLog log_;
  RecordEncoder encoder_{log_};
  EntryBuffer entry_;
  std::uint64_t operators_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t tensors_ = 0;
};

/// Reads entries in the order they were written, up to the first that is not whole.
class JournalReader {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal, or of another format
  explicit JournalReader(const std::filesystem::path& file) : entries_(file) {}

  /// The next completed record; empty at the end. Other events are passed over.
  /// @throws core::Error{kDumpDamaged} when a whole entry with a good checksum makes no sense
  std::optional<core::OpRecord> next();

  /// The next event of any kind. @throws as next()
  std::optional<Event> next_event();

  /// Of the entry that made the last event: where it begins, and where its payload ends.
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

  /// Reads the record at an offset that begin() has said.
  /// @throws core::Error{kDumpDamaged} when it is no longer there
  core::OpRecord record_at(std::uint64_t offset);

 private:
  template <typename Object>
  using Objects = std::vector<std::shared_ptr<const Object>>;
  using Forms = std::vector<std::string>;

  std::optional<Event> take(const Entry& entry);
  std::optional<Event> checked(const Entry& entry);
  core::OpRecord record(std::span<const std::byte> payload) const;

  EntryReader entries_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  Objects<core::OperatorInfo> ops_;
  Objects<core::CallSite> sites_;
  Forms call_forms_;
  Forms tensor_forms_;
};

/// What a recording reached before it stopped.
struct JournalSummary {
  std::uint64_t completed = 0;           ///< whole records
  std::optional<std::uint64_t> entered;  ///< op index entered and never left
  std::string entered_operator;          ///< `aten::conv2d (backbone.conv1, model.py:40)`
  std::optional<std::uint64_t> last;     ///< op index of the last whole record
  std::string last_operator;
  std::string failure;  ///< the message of fail(), if it came to that
};

/// @throws core::Error as JournalReader
JournalSummary summarise(const std::filesystem::path& file);

/// Whether a JournalWriter, in this process or another, still holds `file`; false where it is
/// missing or the file system has no locks.
bool is_being_written(const std::filesystem::path& file) noexcept;

}  // namespace repro_check::journal
