// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/entry.h"

namespace repro_check::journal {

/// Reads entries in the order they were written, up to the first that is not whole. Nothing in the
/// file is believed: a length is checked against what the file holds before memory is asked for.
class JournalReader {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal or of another version; {kIo}
  explicit JournalReader(const std::filesystem::path& file);

  /// The next event; empty at the end.
  /// @throws core::Error{kDumpDamaged} when a whole entry with a good checksum makes no sense
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

  struct Entry {
    EntryKind kind = EntryKind::kFail;
    std::span<const std::byte> payload;  ///< borrowed until the next one is read
  };

  std::optional<Entry> next_entry();
  std::optional<Event> take(const Entry& entry);
  std::optional<Event> checked(const Entry& entry);
  void check_header();
  /// The bytes at the current position, or fewer where the file ends.
  std::span<const std::byte> peek(std::size_t size);
  [[nodiscard]] core::OpRecord record(std::span<const std::byte> payload) const;

  std::string path_;
  core::FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_begin_ = 0;
  std::size_t buffer_size_ = 0;
  bool ended_ = false;
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

/// Where the bytes of a content are.
struct ContentSpot {
  ContentPlace place = ContentPlace::kInline;
  std::uint64_t offset = 0;  ///< inline: in the journal itself
  std::uint64_t size = 0;
};

/// What the whole records of a journal come to, in numbers.
struct JournalTotals {
  std::uint64_t tensors = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t drawing_operators = 0;
  std::uint64_t returned = 0;
  std::uint32_t deepest = 0;  ///< largest depth
};

/// Takes the events of a journal, one by one, and says what they come to.
struct SummaryBuilder {
  std::map<std::uint64_t, core::OpHead> open;  ///< entered and not yet left, by op index
  JournalSummary summary;                      ///< but for what finish() adds
  core::OpHead last;                           ///< of the last whole record

  void add(const Event& event);
  [[nodiscard]] JournalSummary finish() const;
};

/// A journal gone through once, whose records can then be read in any order. Holds some bytes an
/// operator and each content's place; the records stay in the file.
class RecordedJournal {
 public:
  /// @throws as JournalReader; core::Error{kDumpDamaged} also when the records make no trace
  explicit RecordedJournal(const std::filesystem::path& file);

  /// One more than the highest index of a whole record.
  [[nodiscard]] std::uint64_t op_count() const noexcept { return offsets_.size(); }
  /// @param index  below op_count(); of one that is unfinished only its head
  [[nodiscard]] core::OpRecord record(std::uint64_t index) const;

  std::vector<std::uint64_t> unfinished;  ///< below op_count(), entered and never left; ascending
  std::map<core::ContentKey, ContentSpot> contents;
  std::map<core::ContentKey, core::ContentSlice> slices;  ///< contents that were not kept whole
  std::optional<Referred> reference;  ///< the dump that contents of the place kReference are in
  JournalTotals totals;
  JournalSummary summary;
  std::optional<std::string> begun;     ///< manifest as far as it was known in the beginning
  std::optional<std::string> finished;  ///< of the whole recording

 private:
  void add(const core::OpRecord& record);
  void add(const StoredContent& content);
  void add(const Referred& dump);
  void add(const core::OpHead& call);
  void add(const SlicedContent& sliced) { slices.try_emplace(sliced.key, sliced.slice); }
  void add(const Begun& first) { begun = first.manifest; }
  void add(const Finished& last) { finished = last.manifest; }
  void add(const Failure& /*failure*/) {}
  void check(const core::OpHead& call) const;
  void check(const core::TensorRecord& tensor);
  [[noreturn]] void damaged(const std::string& what) const;

  std::string path_;
  mutable JournalReader reader_;
  SummaryBuilder builder_;
  std::vector<std::uint64_t> offsets_;  ///< of the records, by op index
  std::uint64_t entered_ = 0;
  std::int64_t last_producer_ = core::kNoProducer;
};

}  // namespace repro_check::journal
