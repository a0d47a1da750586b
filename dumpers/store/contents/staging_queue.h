// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/content/content_bytes.h"
#include "core/error.h"
#include "dumpers/store/contents/staging_buffer.h"

namespace repro_check::store {

class DirectFile;

/// Copies contents into a bounded number of buffers, which a thread of its own writes to the file.
/// Whoever puts waits only while every buffer is on its way to the disk. Used by one thread at a
/// time.
class StagingQueue {
 public:
  /// @param file    borrowed; only the queue's thread writes to it
  /// @param memory  bytes of all buffers together; at least two are used
  StagingQueue(DirectFile& file, std::size_t memory);
  StagingQueue(const StagingQueue&) = delete;
  StagingQueue& operator=(const StagingQueue&) = delete;
  StagingQueue(StagingQueue&&) = delete;
  StagingQueue& operator=(StagingQueue&&) = delete;
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

  void start_thread();
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

}  // namespace repro_check::store
