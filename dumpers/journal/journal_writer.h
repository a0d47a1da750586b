// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/system/mapped_window.h"
#include "core/system/own_file.h"
#include "core/system/pinned.h"
#include "core/tensor/content.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/entry.h"

namespace repro_check::journal {

/// A new file that grows at its end through a shared mapping. What append() has returned for is in
/// the page cache and survives the death of the process; it is not forced to the disk. The process
/// may be a program that closes descriptors it has not opened: the log keeps none open.
class MappedLog : core::Pinned {
 public:
  /// @throws core::Error{kIo}; an existing file is refused
  explicit MappedLog(std::filesystem::path file);
  ~MappedLog();

  /// @throws core::Error{kIo} when the file cannot grow, was cut, or is no longer there; it is as
  ///         before then
  void append(std::span<const std::byte> bytes) {
    if (bytes.size() > room_ || window_.was_cut()) [[unlikely]]
      grow(bytes.size());
    store(bytes);
  }

  /// As append(), but may use the space that every window keeps back for a last word.
  /// @return the bytes written: fewer when even that space is too small
  [[nodiscard]] std::size_t last_room() const noexcept { return room_ + reserve_; }
  void append_last(std::span<const std::byte> bytes);

  /// Unmaps and cuts the file to what was appended.
  void close();
  /// For a forked child: the file and its lock are the parent's.
  void let_go() noexcept;

 private:
  void grow(std::size_t needed);
  void store(std::span<const std::byte> bytes) noexcept;
  void expect_whole() const;
  [[noreturn]] void fail(std::string_view what, int code) const;

  core::OwnFile file_;
  core::MappedWindow lock_;  ///< of one page: keeps the lock, which is that of what is mapped
  core::MappedWindow window_;
  std::uint64_t window_begin_ = 0;  ///< offset of the window in the file
  std::size_t next_size_;
  std::size_t used_ = 0;     ///< of the window
  std::size_t room_ = 0;     ///< left in the window, without the reserve
  std::size_t reserve_ = 0;  ///< left for a last word
};

/// Append-only file of one recording. Every entry carries its length and checksum, and goes into a
/// shared mapping of the file, so that what was appended survives the death of the process at any
/// instant without a system call an entry. The format is in docs/DUMP_FORMAT.md.
///
/// What records have in common is written once: texts, sizes, operators and sites as the tables of
/// the index have them, and of a call only what is not as in an earlier call of the same operator.
/// That is a fifth of the bytes, and what a page of the file costs is the larger part of what a
/// record costs.
class JournalWriter {
 public:
  /// @throws core::Error{kIo}; an existing file is refused
  explicit JournalWriter(const std::filesystem::path& file);

  /// @throws core::Error{kIo} when the disk is full
  void enter(const core::OpHead& call);
  /// @throws core::Error{kInternal} also when the call has more values or tensors than a reader
  ///         takes
  void append(const core::OpRecord& record);
  void fail(std::string_view message);

  /// Keeps a content in the journal itself.
  /// @param bytes  as many as dtype and shape make, and no more than kLargestInline
  void content(const core::ContentKey& key, std::span<const std::byte> bytes);
  /// Notes where the bytes of a content are, or will be: the entry may come before they do.
  /// @param place  not kInline
  void content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset);
  /// Names the dump that contents of the place kReference are in; before the first of them.
  void refers(const core::TraceReference& dump);
  /// Notes that of a content only a slice is kept, behind the content that the slice is.
  void sliced(const SlicedContent& content);
  void block(const core::BlockRow& block);
  void parameter(const core::ParameterRow& parameter);
  /// Names that roots of modules have in all that was appended.
  void roots(const core::RootNames& names);
  /// What is known of the run before its first operator.
  void begun(std::string_view manifest) { text(EntryKind::kBegun, manifest); }
  /// The last entry: the recording is whole.
  void finished(std::string_view manifest) { text(EntryKind::kFinished, manifest); }

  /// Of what was appended.
  [[nodiscard]] const RowCounts& counts() const noexcept { return counts_; }
  /// Holds what the recorder counted against what was appended.
  /// @throws core::Error{kInternal} where they differ
  void check_counts(const core::TraceSummary& trace) const;
  /// Fills in how many rows of blocks and parameters were appended.
  /// @throws core::Error{kInternal} where there are some and `trace` has no BlockSummary
  void count_blocks(core::TraceSummary& trace) const;

  /// Cuts the file to what was written.
  void close() { log_.close(); }
  /// As MappedLog::let_go().
  void let_go() noexcept { log_.let_go(); }

 private:
  struct ToRow;
  static constexpr std::size_t kRecent = 64;  ///< operators

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  /// Definitions of one kind, by their bytes.
  struct Definitions {
    std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> numbers = {};
    std::uint64_t next = 0;
  };
  /// The texts and sizes of the last call of an operator, in order: most are those of the next one.
  struct Recent {
    std::vector<std::pair<std::string, std::uint64_t>> texts;
    std::vector<std::pair<std::vector<std::int64_t>, std::uint64_t>> sizes;
  };
  /// What the last such entry of an operator was told by.
  struct Form {
    std::uint64_t reference = kNoForm;
    std::vector<std::byte> words;
  };
  /// An object kept alive, so that its address is proof enough when it comes again.
  struct Pin {
    std::uint32_t row = kNoRow;
    std::shared_ptr<const void> object;
  };

  template <typename Row, typename Object>
  void fill(Row& row, const Object& object);
  template <typename Row, typename Object>
  Row row_of(const Object& object) {
    Row row;
    fill(row, object);
    return row;
  }
  std::uint64_t define(EntryKind kind, std::span<const std::byte> bytes, std::uint64_t grows = 1);
  std::uint64_t number_of(std::string_view text);
  std::uint64_t place_of(std::span<const std::int64_t> sizes);
  /// By address where it is known, else by content.
  template <typename Object>
  std::uint32_t refer(const std::shared_ptr<const Object>& object);
  std::uint32_t define_object(const core::OperatorInfo& op);
  std::uint32_t define_object(const core::CallSite& site);
  void begin_call(const core::OpHead& call);
  /// A new row of the call, valid until the next. What is made where it stays need not be copied
  /// while the processor is still writing it.
  template <typename Row>
  Row& add_row() {
    if (call_size_ + sizeof(Row) > call_.size()) [[unlikely]] {
      call_.resize(2 * (call_size_ + sizeof(Row)));
    }
    return *new (&call_[std::exchange(call_size_, call_size_ + sizeof(Row))]) Row;
  }
  CallHead& call_head() noexcept { return *reinterpret_cast<CallHead*>(call_.data()); }
  OpRow& op_row() noexcept { return *reinterpret_cast<OpRow*>(&call_[sizeof(CallHead)]); }
  std::uint32_t add_value(const core::Value& value, std::uint32_t name, std::uint16_t level);
  void add_tensors(const core::OpRecord& record);
  void put_call(EntryKind kind, std::array<Form, kRecent>& forms);
  void put_content(const core::ContentKey& key,
                   ContentPlace place,
                   std::uint64_t offset,
                   std::span<const std::byte> bytes);
  void text(EntryKind kind, std::string_view bytes);
  template <typename Row>
  void put_row(EntryKind kind, const Row& row) {
    entry_.begin(kind);
    entry_.put_bytes(bytes_of(row));
    put();
  }
  void put() { log_.append(entry_.finish()); }

  MappedLog log_;
  EntryBuffer entry_;
  EntryBuffer definition_;
  std::array<Definitions, static_cast<std::size_t>(EntryKind::kForm)> definitions_;  ///< by kind
  std::unordered_map<const void*, Pin> pins_;
  std::array<std::pair<const void*, std::uint32_t>, kRecent> recent_pins_{};
  std::array<Recent, kRecent> recents_;
  std::array<Form, kRecent> entered_;
  std::array<Form, kRecent> recorded_;
  Recent* recent_ = nullptr;  ///< of the call that is being put together
  std::size_t next_text_ = 0;
  std::size_t next_sizes_ = 0;
  std::vector<std::byte> call_ = std::vector<std::byte>(4096);  ///< the words of that call
  std::size_t call_size_ = 0;
  std::uint64_t forms_ = 0;
  RowCounts counts_;
};

/// Bytes of contents, one behind the other, each at the beginning of a page. The file is made when
/// the first come.
class ContentsFile {
 public:
  explicit ContentsFile(std::filesystem::path file);

  /// @return where in the file they are; after a failure the place is used again
  /// @throws core::Error{kIo}
  std::uint64_t append(const core::ContentBytes& bytes);

  /// Forces what was appended to the disk.
  void sync();

 private:
  std::filesystem::path path_;
  std::optional<core::OwnFile> file_;
  std::uint64_t end_ = 0;
  std::vector<std::byte> piece_;
};

/// A complete recording without HDF5, for a process that must not hold it: `journal.bin`, and
/// `contents.bin` beside it for contents above kSmallContent. What a call has returned for survives
/// the death of the process. `repro-check recover` makes a dump of it.
class JournalSink final : public core::DumpSink {
 public:
  /// Creates the directory.
  /// @throws core::Error{kUsage} when a recording or a dump is already there; core::Error{kIo}
  explicit JournalSink(const std::filesystem::path& directory);

  void begin(const core::RunManifest& manifest) override {
    journal_.begun(core::to_json_text(manifest));
  }
  void enter(const core::OpHead& call) override { journal_.enter(call); }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return known_.contains(key);
  }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override;
  void append(const core::OpRecord& record) override { journal_.append(record); }
  void block(const core::BlockRow& row) override { journal_.block(row); }
  void parameter(const core::ParameterRow& row) override { journal_.parameter(row); }
  void fail(const std::string& message) override;

  /// As JournalWriter::roots().
  void name_roots(const core::RootNames& names) { journal_.roots(names); }

  /// For a forked child, which never calls anything else of it: without it the recording would
  /// count as being written as long as the child lives.
  void let_go() noexcept { journal_.let_go(); }

  /// Bytes of contents so far; readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Notes that the recording is whole, and forces it to the disk. Fills manifest.trace.contents
  /// and stored_bytes, and counts its blocks; the index, and its digest, are made with the dump.
  /// @throws core::Error{kIo}
  void finish(core::RunManifest manifest);

 private:
  std::filesystem::path directory_;
  JournalWriter journal_;
  ContentsFile contents_;
  std::set<core::ContentKey> known_;
  std::vector<std::byte> small_;
  std::atomic<std::uint64_t> stored_bytes_{0};
  bool failed_ = false;
};

}  // namespace repro_check::journal
