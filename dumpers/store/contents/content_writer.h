// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/file/plain_file.h"
#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {

/// An existing file, written at given offsets: whole blocks past the page cache where the file
/// system can, everything else through it. Nothing outside the given range is touched, so that
/// somebody else may write what lies next to it.
class DirectFile : core::Pinned {
 public:
  /// @throws core::Error{kIo}
  explicit DirectFile(std::filesystem::path file);

  /// Whether blocks go past the page cache; the first write may show that they cannot. From any
  /// thread.
  [[nodiscard]] bool direct() const noexcept { return direct_; }

  /// Writes all of `bytes`; fastest where both `offset` and their address are aligned.
  /// @throws core::Error{kIo}
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  std::filesystem::path file_;
  core::FileDescriptor ordinary_fd_;
  core::FileDescriptor direct_fd_;
  std::atomic<bool> direct_ = false;
};

class StagingBuffer;

/// Copies contents into a bounded number of buffers, which a thread of its own writes to the file.
/// Whoever puts waits only while every buffer is on its way to the disk. Used by one thread at a
/// time.
class StagingQueue : core::Pinned {
 public:
  /// @param file    borrowed; only the queue's thread writes to it
  /// @param memory  bytes of all buffers together; at least two are used
  StagingQueue(DirectFile& file, std::size_t memory);
  /// Writes what has been put, unless writing has failed.
  ~StagingQueue();

  /// @param offset  where `bytes` belong in the file
  /// @throws core::Error{kIo} when writing, these or earlier bytes, has failed
  void put(std::uint64_t offset, const core::ContentBytes& bytes);

  /// Waits until everything is written. @throws core::Error{kIo}
  void drain();

  /// Costs nothing where all is well. @throws core::Error{kIo} when writing has failed
  void check();

  /// Bytes of the buffers there are by now.
  [[nodiscard]] std::size_t memory() const noexcept { return buffers_ * buffer_bytes_; }

 private:
  using BufferPtr = std::unique_ptr<StagingBuffer>;

  void run() noexcept;
  [[nodiscard]] BufferPtr next_full();
  void write(const StagingBuffer& buffer) noexcept;
  [[nodiscard]] BufferPtr open_buffer();
  void hand_over(BufferPtr buffer);

  DirectFile& file_;
  const std::size_t buffer_bytes_;
  const std::size_t most_buffers_;
  std::size_t buffers_ = 0;  ///< allocated; of the putting thread
  std::atomic<bool> failed_ = false;

  std::mutex mutex_;  ///< guards all that follows
  std::condition_variable work_;
  std::condition_variable progress_;
  std::deque<BufferPtr> full_;
  /// Begun and not full. The thread takes it when there is nothing else, so that the disk is never
  /// idle; until then the next content goes on filling it.
  BufferPtr begun_;
  std::vector<BufferPtr> free_;
  bool writing_ = false;
  bool stop_ = false;
  std::optional<core::Error> failure_;

  std::thread thread_;
};

struct ContentKeyHash {
  std::size_t operator()(const core::ContentKey& key) const noexcept {
    return static_cast<std::size_t>(key.digest.low ^ static_cast<std::uint64_t>(key.dtype));
  }
};

// Where a content is, as ContentRow::packed says it, when not in `/packed`.
inline constexpr std::int64_t kOwnDataset = -1;
inline constexpr std::int64_t kInReference = -2;  ///< in the dump that this one refers to

/// What is stored of contents that are not stored whole.
using Slices = std::map<core::ContentKey, core::ContentSlice>;

/// Keeps contents, each key once. A big one gets its dataset at once, and a thread of its own
/// writes the bytes there. A small one goes into the journal, because making a dataset costs more
/// than the operator that made the tensor. The journal knows of both before their bytes are in the
/// file, and by the digest of what was read.
class ContentWriter {
 public:
  /// @param trace     the file that big contents go to
  /// @param datasets  of that file; borrowed, as is `journal`
  /// @param memory    bytes between the model and the disk
  ContentWriter(std::filesystem::path trace,
                const ContentDatasets& datasets,
                journal::JournalWriter& journal,
                std::size_t memory);

  [[nodiscard]] bool has(const core::ContentKey& key) const { return known_.contains(key); }
  /// @throws core::Error{kIo}, for earlier contents as well
  void put(const core::ContentKey& key, const core::ContentBytes& bytes);
  /// Notes what is stored of a content: that was put before, as the content core::slice_key().
  void note_slice(const core::ContentKey& key, const core::ContentSlice& slice);
  /// Keeps no bytes: they are in the dump that the journal has named.
  void refer(const core::ContentKey& key);
  /// @throws core::Error{kIo} when a content put before could not be written
  void check();
  /// Waits until all that was put is written. @throws core::Error{kIo}
  void drain();

  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }

  std::unordered_set<core::ContentKey, ContentKeyHash> referred;
  std::uint64_t referred_bytes = 0;
  Slices slices;
  std::atomic<std::uint64_t> stored_bytes{0};  ///< readable from any thread
  /// Whether bytes have gone past the page cache.
  [[nodiscard]] bool direct() const noexcept { return file_ && file_->direct(); }

 private:
  /// @return where in the file it will be
  std::uint64_t stage(const core::ContentKey& key, const core::ContentBytes& bytes);
  /// What was staged as `key` is another content: the dataset becomes that one's, or goes.
  void relabel(const core::ContentKey& key, const core::ContentKey& read);

  std::filesystem::path trace_;
  const ContentDatasets& datasets_;
  journal::JournalWriter& journal_;
  std::size_t memory_;
  std::unordered_set<core::ContentKey, ContentKeyHash> known_;
  std::vector<std::byte> small_;
  std::optional<DirectFile> file_;     ///< from the first big content on
  std::optional<StagingQueue> queue_;  ///< likewise; goes before the file it writes to
};

}  // namespace repro_check::store
