// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump_sink.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// A new file that grows at its end through a shared mapping. What append() has returned for is in
/// the page cache and survives the death of the process; it is not forced to the disk.
class MappedLog : core::Pinned {
 public:
  /// @throws core::Error{kIo}; an existing file is refused
  explicit MappedLog(std::filesystem::path file);
  ~MappedLog();

  /// @throws core::Error{kIo} when the file cannot grow; it is as before then
  void append(std::span<const std::byte> bytes) {
    if (bytes.size() > room_) grow(bytes.size());
    store(bytes);
  }

  /// As append(), but may use the space that every window keeps back for a last word.
  /// @return the bytes written: fewer when even that space is too small
  [[nodiscard]] std::size_t last_room() const noexcept { return room_ + reserve_; }
  void append_last(std::span<const std::byte> bytes);

  /// Unmaps and cuts the file to what was appended.
  void close();

 private:
  void grow(std::size_t needed);
  void store(std::span<const std::byte> bytes) noexcept;
  void unmap() noexcept;
  [[noreturn]] void fail(std::string_view what, int code) const;

  std::filesystem::path file_;
  int fd_ = -1;
  std::byte* window_ = nullptr;
  std::size_t window_size_ = 0;
  std::uint64_t window_begin_ = 0;  ///< offset of the window in the file
  std::size_t next_size_;
  std::size_t used_ = 0;     ///< of the window
  std::size_t room_ = 0;     ///< left in the window, without the reserve
  std::size_t reserve_ = 0;  ///< left for a last word
};

/// Spells records and entries as payloads. What many of them have in common is written once, as a
/// form, and referred to: a third of the bytes, and what a page of the file costs is the larger
/// part of what a record costs. Operators, sites and forms are numbered as they first appear, and
/// defined in the log before anything refers to them.
class RecordEncoder {
 public:
  explicit RecordEncoder(MappedLog& log) : log_(log) {}

  /// @throws core::Error{kInternal} when the call has more values or tensors than a reader takes
  void encode(const core::OpRecord& record, EntryBuffer& into);
  void encode(const core::OpHead& call, EntryBuffer& into);

 private:
  /// Definitions of one kind: their numbers by what they say.
  struct Hash {
    std::size_t operator()(const core::Digest& digest) const noexcept { return digest.low; }
  };
  using Numbers = std::unordered_map<core::Digest, std::uint32_t, Hash>;

  /// An object kept alive, so that its address is proof enough when it comes again.
  struct Pin {
    std::uint64_t reference = kNothing;
    std::shared_ptr<const void> object;
  };
  /// A pin looked up lately: a record asks for what its entry has just asked for.
  struct RecentPin {
    const void* object = nullptr;
    std::uint64_t reference = kNothing;
  };
  // What stood at a place last, which is mostly what stands there again. The first ones refer to
  // nothing: they are like nothing.
  struct RecentCall {
    std::uint64_t reference = kNothing;
    std::string form;
  };
  struct RecentTensor {
    std::uint64_t reference = kNothing;
    core::TensorRecord tensor;
  };

  /// By address where it is known, else by content.
  template <typename Object>
  std::uint64_t refer(EntryKind kind, const std::shared_ptr<const Object>& object);
  std::uint64_t pinned(const void* object);
  void pin(std::shared_ptr<const void> object, std::uint64_t reference);
  // Apart, so that what runs for every record stays short.
  template <typename Object>
  [[gnu::noinline]] std::uint64_t define_object(EntryKind kind, const Object& object);
  [[gnu::noinline]] std::uint64_t define(EntryKind kind,
                                         std::string_view body,
                                         const core::Digest& digest);
  std::uint64_t put_form(EntryBuffer& into);
  void put_call_form(RecentCall& recent, EntryBuffer& into);
  void put_tensor_form(const core::TensorRecord& tensor, RecentTensor& recent, EntryBuffer& into);

  MappedLog& log_;
  EntryBuffer body_;  ///< of an operator or a site, without its number: what makes it the same
  EntryBuffer definition_;
  EntryBuffer form_;
  std::array<Numbers, kLastDefinition + 1> numbers_;  ///< by kind
  std::unordered_map<const void*, Pin> pins_;
  std::array<RecentPin, 64> recent_pins_;
  std::array<RecentCall, 64> recent_calls_;
  std::array<RecentTensor, 256> recent_tensors_;
};

struct Entry {
  EntryKind kind = EntryKind::kFail;
  std::uint64_t offset = 0;            ///< of its header in the file
  std::span<const std::byte> payload;  ///< borrowed until the next call
};

/// Reads a journal entry by entry, up to the first that is not whole. Nothing in the file is
/// believed: a length is checked against what the file holds before memory is asked for.
class EntryReader {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal or of another version; {kIo}
  explicit EntryReader(const std::filesystem::path& file);

  std::optional<Entry> next();
  /// Goes on at an entry that was read before.
  void go_to(std::uint64_t offset) noexcept {
    position_ = offset;
    ended_ = false;
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void check_header();
  /// The bytes at the current position, or fewer where the file ends.
  std::span<const std::byte> peek(std::size_t size);

  std::string path_;
  core::FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_begin_ = 0;
  std::size_t buffer_size_ = 0;
  bool ended_ = false;
};

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
  void enter(const core::OpHead& call) { put(call); }
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
