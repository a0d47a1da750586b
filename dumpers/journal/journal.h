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

#include "core/tensor/tensor_record.h"
#include "core/trace/dump_sink.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// The files of a recording, in its directory.
inline constexpr const char* kJournalName = "journal.bin";
inline constexpr const char* kContentsName = "contents.bin";

/// Lists in lists in an argument are kept this deep; a deeper one becomes core::Opaque.
inline constexpr int kMaxListDepth = 64;

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
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;
  JournalWriter(JournalWriter&&) = delete;
  JournalWriter& operator=(JournalWriter&&) = delete;
  ~JournalWriter();

  /// @throws core::Error{kIo} when the disk is full
  void enter(const core::OpEntry& entry);
  void append(const core::OpRecord& record);
  void fail(const std::string& message);

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
  void begun(std::string_view manifest);
  /// The last entry: the recording is whole.
  void finished(std::string_view manifest);

  /// Cuts the file to what was written.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads entries in the order they were written, up to the first that is not whole.
class JournalReader {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal, or of another format
  explicit JournalReader(const std::filesystem::path& file);
  JournalReader(const JournalReader&) = delete;
  JournalReader& operator=(const JournalReader&) = delete;
  JournalReader(JournalReader&&) = delete;
  JournalReader& operator=(JournalReader&&) = delete;
  ~JournalReader();

  /// The next completed record; empty at the end. Other events are passed over.
  /// @throws core::Error{kDumpDamaged} when a whole entry with a good checksum makes no sense
  std::optional<core::OpRecord> next();

  /// The next event of any kind. @throws as next()
  std::optional<Event> next_event();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
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
