// SPDX-License-Identifier: Apache-2.0
#include "core/trace/dump.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/memory.h"
#include "core/system/workers.h"

namespace repro_check::core {

std::unique_ptr<ContentParts> DumpSource::open_content(const ContentKey& key) const {
  std::vector<std::byte> bytes;
  read_content(key, bytes);
  return std::make_unique<MemoryParts>(std::move(bytes));
}

namespace {

/// Fewer bytes than this are not worth waking a thread for.
constexpr std::uint64_t kBytesToShare = std::uint64_t{8} << 20U;
/// So much is opened, and then read by all threads together.
constexpr std::uint64_t kRoundBytes = std::uint64_t{256} << 20U;
constexpr std::size_t kRoundContents = 16'384;

/// A content whose chunks are being read.
struct OpenContent {
  std::unique_ptr<ContentParts> parts;
  std::vector<Digest> chunks;
};

struct Task {
  std::size_t content = 0;
  std::size_t chunk = 0;
  std::exception_ptr failure = nullptr;
};

/// Contents are looked at in rounds, and in each of them in their order, so that the first failure
/// of the dump is always found.
class Verification {
 public:
  Verification(const DumpSource& dump, const ContentCheck& check)
      : dump_(dump),
        check_(check),
        buffers_(std::min<std::uint64_t>(1 + dump.manifest().trace.stored_bytes / kBytesToShare,
                                         worker_count(check.threads))) {}

  void run() {
    const std::uint64_t count = dump_.content_count();
    for (std::uint64_t next = 0; next < count;) {
      contents_.clear();
      tasks_.clear();
      std::uint64_t bytes = 0;
      std::exception_ptr unopened;
      while (!unopened && next < count && bytes < kRoundBytes &&
             contents_.size() < kRoundContents) {
        try {
          bytes += open(next++);
        } catch (...) {
          unopened = std::current_exception();  // what comes before it may fail, too
        }
      }
      digest();
      conclude();
      if (unopened) std::rethrow_exception(unopened);
    }
  }

 private:
  /// @return how many bytes are to be read
  std::uint64_t open(std::uint64_t position) {
    const std::optional<ContentKey> key = dump_.content(position);
    if (!key || (check_.skip && check_.skip(*key))) return 0;
    auto parts = dump_.open_content(*key);
    const std::uint64_t size = parts->size();
    if (parts->verified()) {
      if (check_.progress) check_.progress(size);
      return 0;
    }
    OpenContent& content = contents_.emplace_back();
    content.parts = std::move(parts);
    content.chunks.resize(std::max<std::uint64_t>(1, (size + kDigestChunk - 1) / kDigestChunk));
    for (std::size_t chunk = 0; chunk < content.chunks.size(); ++chunk) {
      tasks_.push_back({contents_.size() - 1, chunk});
    }
    return size;
  }

  void digest() {
    std::atomic<std::size_t> next = 0;
    run_workers(static_cast<unsigned>(std::min(tasks_.size(), buffers_.size())),
                [&](unsigned worker) {
                  for (std::size_t at = next++; at < tasks_.size(); at = next++) {
                    Task& task = tasks_[at];
                    OpenContent& content = contents_[task.content];
                    const std::uint64_t begin = std::uint64_t{task.chunk} * kDigestChunk;
                    const auto size = static_cast<std::size_t>(
                        std::min<std::uint64_t>(kDigestChunk, content.parts->size() - begin));
                    try {
                      content.chunks[task.chunk] =
                          digest_leaf(content.parts->read(begin, buffers_[worker].room(size)));
                    } catch (...) {
                      task.failure = std::current_exception();
                    }
                  }
                });
  }

  void conclude() const {
    auto task = tasks_.begin();
    for (const OpenContent& content : contents_) {
      for (std::size_t chunk = 0; chunk < content.chunks.size(); ++chunk, ++task) {
        if (task->failure) std::rethrow_exception(task->failure);
      }
      content.parts->verify(content.chunks);
      if (check_.progress) check_.progress(content.parts->size());
    }
  }

  const DumpSource& dump_;
  const ContentCheck& check_;
  std::vector<AlignedBuffer> buffers_;  ///< one a worker
  std::vector<OpenContent> contents_;
  std::vector<Task> tasks_;
};

}  // namespace

void DumpSink::block(const BlockRow& /*row*/) {
  throw internal_error("blocks go to a dump or a journal");
}

void DumpSink::parameter(const ParameterRow& /*row*/) {
  throw internal_error("parameters of blocks go to a dump or a journal");
}

void verify_contents(const DumpSource& dump, const ContentCheck& check) {
  Verification(dump, check).run();
}

}  // namespace repro_check::core
