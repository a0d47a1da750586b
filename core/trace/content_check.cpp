// SPDX-License-Identifier: Apache-2.0
#include "core/trace/content_check.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/content/content.h"
#include "core/digest/digest.h"
#include "core/system/aligned_buffer.h"
#include "core/system/worker_pool.h"

namespace repro_check::core {
namespace {

/// Fewer bytes than this are not worth waking a thread for.
constexpr std::uint64_t kBytesToShare = std::uint64_t{8} << 20U;
/// A thread takes as many small contents at a time: each alone is read in less time than it takes
/// to ask for it.
constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 10U;
constexpr std::size_t kBatchTasks = 256;

/// A content some of whose chunks are being read.
struct OpenContent {
  std::uint64_t position = 0;  ///< among the contents of the dump
  std::unique_ptr<ContentParts> parts;
  std::vector<Digest> chunks;
  std::atomic<std::size_t> left = 0;
};

struct Task {
  std::shared_ptr<OpenContent> content;
  std::size_t chunk = 0;
};

/// Hands out the chunks of all contents in their order, and whoever takes several takes them in
/// that order. So everything before a content is looked at when that content fails, and the first
/// failure of the dump is always found.
class Verification {
 public:
  Verification(const DumpSource& dump, const ContentCheck& check)
      : dump_(dump), check_(check), count_(dump.content_count()) {}

  void run() {
    WorkerPool pool(check_.threads);
    const std::uint64_t useful = 1 + dump_.manifest().trace.stored_bytes / kBytesToShare;
    pool.run(static_cast<unsigned>(std::min<std::uint64_t>(useful, pool.size())),
             [this](unsigned /*worker*/) { serve(); });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void serve() {
    AlignedBuffer buffer;
    for (std::vector<Task> batch = next(); !batch.empty(); batch = next()) {
      for (const Task& task : batch) {
        OpenContent& content = *task.content;
        try {
          digest(content, task.chunk, buffer);
          if (--content.left == 0) finish(content);
        } catch (...) {
          fail(content.position, std::current_exception());
          break;  // what comes later can fail only later
        }
      }
    }
  }

  std::vector<Task> next() {
    const std::lock_guard lock(mutex_);
    std::vector<Task> batch;
    std::uint64_t bytes = 0;
    while (bytes < kBatchBytes && batch.size() < kBatchTasks) {
      std::optional<Task> task = next_task();
      if (!task) break;
      bytes += std::min(task->content->parts->size(), std::uint64_t{kDigestChunk});
      batch.push_back(*std::move(task));
    }
    return batch;
  }

  std::optional<Task> next_task() {
    while (!failure_) {
      if (current_ && next_chunk_ < current_->chunks.size()) return Task{current_, next_chunk_++};
      current_.reset();
      if (next_content_ == count_) return std::nullopt;
      try {
        open(next_content_++);
      } catch (...) {
        note(next_content_ - 1, std::current_exception());
      }
    }
    return std::nullopt;
  }

  void open(std::uint64_t position) {
    const std::optional<ContentKey> key = dump_.content(position);
    if (!key || (check_.skip && check_.skip(*key))) return;
    auto content = std::make_shared<OpenContent>();
    content->position = position;
    content->parts = dump_.open_content(*key);
    const std::uint64_t size = content->parts->size();
    if (content->parts->verified()) {
      if (check_.progress) check_.progress(size);
      return;
    }
    const std::uint64_t chunks =
        std::max<std::uint64_t>(1, (size + kDigestChunk - 1) / kDigestChunk);
    content->chunks.resize(chunks);
    content->left = chunks;
    next_chunk_ = 0;
    current_ = std::move(content);
  }

  static void digest(OpenContent& content, std::size_t chunk, AlignedBuffer& buffer) {
    const std::uint64_t begin = std::uint64_t{chunk} * kDigestChunk;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(kDigestChunk, content.parts->size() - begin));
    content.chunks[chunk] = digest_leaf(content.parts->read(begin, buffer.room(size)));
  }

  void finish(const OpenContent& content) {
    content.parts->verify(content.chunks);
    if (!check_.progress) return;
    const std::lock_guard lock(mutex_);
    check_.progress(content.parts->size());
  }

  void fail(std::uint64_t position, std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    note(position, std::move(why));
  }

  void note(std::uint64_t position, std::exception_ptr why) {
    if (failure_ && failed_at_ <= position) return;
    failure_ = std::move(why);
    failed_at_ = position;
  }

  const DumpSource& dump_;
  const ContentCheck& check_;
  const std::uint64_t count_;
  std::mutex mutex_;
  std::uint64_t next_content_ = 0;
  std::shared_ptr<OpenContent> current_;
  std::size_t next_chunk_ = 0;
  std::exception_ptr failure_;
  std::uint64_t failed_at_ = 0;
};

}  // namespace

void verify_contents(const DumpSource& dump, const ContentCheck& check) {
  Verification(dump, check).run();
}

}  // namespace repro_check::core
