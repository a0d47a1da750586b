// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/staging_queue.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/system/signals_blocked.h"
#include "dumpers/store/file/direct_file.h"

namespace repro_check::store {
namespace {

constexpr std::size_t kFewestBuffers = 2;  // one is filled while the other is written

}  // namespace

StagingQueue::StagingQueue(DirectFile& file, std::size_t memory)
    : file_(file),
      buffer_bytes_(StagingBuffer::size_for(memory)),
      most_buffers_(std::max(kFewestBuffers, memory / buffer_bytes_)) {
  start_thread();
}

StagingQueue::~StagingQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

/// A signal is for the threads of the model: the new one inherits that all are blocked. That holds
/// SIGXFSZ back as well, so that a write beyond the limit is an error here and no death.
void StagingQueue::start_thread() {
  const core::SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw core::Error(core::ErrorKind::kIo,
                      "cannot start the thread that writes tensors: " + error.code().message(),
                      "raise the limit on processes (ulimit -u)");
  }
}

void StagingQueue::put(std::uint64_t offset, const core::ContentBytes& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    BufferPtr buffer = open_buffer();
    done += buffer->take(offset, bytes, done);
    hand_over(std::move(buffer));
  }
}

StagingQueue::BufferPtr StagingQueue::open_buffer() {
  std::unique_lock lock(mutex_);
  if (failure_) throw core::Error(*failure_);
  if (begun_) return std::move(begun_);
  if (free_.empty() && buffers_ < most_buffers_) {
    lock.unlock();
    auto fresh = std::make_unique<StagingBuffer>(buffer_bytes_);
    ++buffers_;
    return fresh;
  }
  progress_.wait(lock, [this] { return !free_.empty(); });
  BufferPtr buffer = std::move(free_.back());
  free_.pop_back();
  if (failure_) throw core::Error(*failure_);
  return buffer;
}

void StagingQueue::hand_over(BufferPtr buffer) {
  {
    const std::scoped_lock lock(mutex_);
    if (buffer->full()) {
      full_.push_back(std::move(buffer));
    } else {
      begun_ = std::move(buffer);
    }
  }
  work_.notify_one();
}

void StagingQueue::drain() {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] { return full_.empty() && !begun_ && !writing_; });
  if (failure_) throw core::Error(*failure_);
}

void StagingQueue::check() {
  if (!failed_) return;
  const std::scoped_lock lock(mutex_);
  throw core::Error(*failure_);
}

void StagingQueue::run() noexcept {
  while (BufferPtr buffer = next_full()) {
    if (!failed_) write(*buffer);
    buffer->clear();
    {
      const std::scoped_lock lock(mutex_);
      free_.push_back(std::move(buffer));
      writing_ = false;
    }
    progress_.notify_all();
  }
}

/// Empty when there is nothing more to come.
StagingQueue::BufferPtr StagingQueue::next_full() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [this] { return stop_ || begun_ || !full_.empty(); });
  BufferPtr next;
  if (!full_.empty()) {
    next = std::move(full_.front());
    full_.pop_front();
  } else {
    next = std::move(begun_);
  }
  writing_ = next != nullptr;
  return next;
}

/// After a failure nothing more is written: what follows would only hide where it happened.
void StagingQueue::write(const StagingBuffer& buffer) noexcept {
  try {
    buffer.write_to(file_);
  } catch (const core::Error& error) {
    const std::scoped_lock lock(mutex_);
    failure_ = error;
    failed_ = true;
  }
}

}  // namespace repro_check::store
