// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/row_decoder.h"
#include "dumpers/journal/rows.h"

namespace repro_check::journal {

/// Reads entries in the order they were written, up to the first that is not whole. Nothing in the
/// file is believed: a length is checked against what the file holds before memory is asked for.
class JournalReader final : private RowDecoder {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal or of another version; {kIo}
  explicit JournalReader(const std::filesystem::path& file);

  /// The next event; empty at the end.
  /// @throws core::Error{kDumpDamaged} when a whole entry with a good checksum makes no sense
  std::optional<Event> next_event();

  /// Of the entry that made the last event: where it begins, and where its payload ends.
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

  /// The rows of the last call that was read; valid until the next event.
  [[nodiscard]] const CallRows& rows() const noexcept { return rows_; }
  /// What the definitions read so far come to.
  [[nodiscard]] const SharedTables& tables() const noexcept { return tables_; }

  /// Files of source that the sites read so far name.
  [[nodiscard]] std::set<std::string> source_files() const;

  /// Names that roots of modules have in what was read, and in what is read from here on: for one
  /// that begins, those that another one of the same file has found.
  void name_roots(core::RootNames names);
  [[nodiscard]] const core::RootNames& roots() const noexcept { return roots_; }

  /// Reads the record at an offset that begin() has said.
  /// @throws core::Error{kDumpDamaged} when it is no longer there
  core::OpRecord record_at(std::uint64_t offset);

 private:
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
  /// Operators and sites that records share, which were read before, are made anew.
  void share_anew();
  void define_text(std::string_view text);
  void define_site(std::span<const std::byte> payload);
  void define_form(std::span<const std::byte> payload);
  void take_words(std::span<const std::byte> payload);
  void take_rows();
  [[nodiscard]] StoredContent stored_content(std::span<const std::byte> payload) const;

  /// Whoever has seen all records knows which there are.
  [[nodiscard]] std::uint64_t op_limit() const override { return UINT64_MAX; }
  [[noreturn]] void fail(const TableLayout& table, const std::string& what) const override;

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
  core::RootNames roots_;
  std::vector<std::vector<Word>> forms_;
  std::vector<std::uint64_t> words_;  ///< of a call, two in each
  std::size_t word_count_ = 0;
  CallRows rows_;  ///< in `words_`
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

/// Takes the events of a journal, one by one, and says what they come to.
struct SummaryBuilder {
  std::map<std::uint64_t, core::OpHead> open;  ///< entered and not yet left, by op index
  JournalSummary summary;                      ///< but for what finish() adds
  core::OpHead last;                           ///< of the last whole record

  void add(const Event& event);
  [[nodiscard]] JournalSummary finish() const;
};

}  // namespace repro_check::journal
