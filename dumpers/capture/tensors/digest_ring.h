// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "dumpers/capture/tensors/device_stream.h"
#include "dumpers/capture/tensors/strided_bytes.h"

namespace repro_check::capture {

class DigestRing;

/// What is being found out of a content on a device. Holds nothing of the content itself.
struct AwaitedContent {
  enum class State : std::uint8_t {
    kOnTheWay,
    kRead,
    kUnread,  ///< the device failed, or there was no memory
  };
  State state = State::kOnTheWay;
  ContentSummary summary;                 ///< kRead: digest, and what is no number; no statistics
  std::vector<std::byte> bytes;           ///< kRead: of a content of no more than kKept
  DeviceStream::Handle stream = nullptr;  ///< that reads it
  bool is_beside = false;                 ///< no operator did so there at the time

  static constexpr std::size_t kKept = 16;

  // Until it has come.
  DigestRing* ring = nullptr;
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<core::Digest> leaves;
  std::size_t missing = 0;  ///< leaves
};
using Awaited = std::shared_ptr<AwaitedContent>;

/// Of what is known already.
Awaited known_content(const ContentSummary& summary);
/// Of what cannot be read.
Awaited unread_content();
inline bool is_on_the_way(const Awaited& content) {
  return content != nullptr && content->state == AwaitedContent::State::kOnTheWay;
}

struct RingSize {
  std::size_t batches = 8;
  std::size_t leaves = 512;  ///< of a batch
};

/// Digests that a device computes behind the work of its streams, fetched in batches. A batch is of
/// one stream, and owns its places in memory that host and device share until the event behind it
/// has come; batches come in the order in which they were begun. Where all are under way, the
/// oldest one is waited for. Not thread safe.
class DigestRing : core::Pinned {
 public:
  /// @param device  borrowed
  explicit DigestRing(DeviceStream& device, RingSize size = {});

  struct Content {
    const std::byte* data;  ///< on the device; at a multiple of 16 bytes, and read by the stream
    std::size_t bytes;
    core::Dtype dtype;
  };
  /// Starts digests on the calling thread's current stream.
  /// @return one for each content; empty where none could be started
  std::vector<Awaited> start(std::span<const Content> contents);

  /// Takes what has come, without a wait.
  void poll();
  /// Until it has come.
  void wait_for(AwaitedContent& content);

  /// How often the oldest batch was waited for because there was no room.
  [[nodiscard]] std::uint64_t stalls() const noexcept { return stalls_; }
  /// Whether nothing is under way.
  [[nodiscard]] bool is_idle() const noexcept { return open_.empty() && !is_broken_; }

 private:
  struct Leaf {
    Awaited content;
    std::size_t size = 0;
  };
  struct Batch {
    std::size_t place = 0;  ///< in the memory, and of its event
    DeviceStream::Handle stream = nullptr;
    std::vector<Leaf> leaves = {};
    std::size_t started = 0;  ///< of the leaves
    bool is_closed = false;   ///< takes no more
    bool is_lost = false;     ///< not all that belongs to it was started
  };

  bool has_memory();
  /// That takes another leaf of the stream.
  Batch& batch_for(DeviceStream::Handle stream);
  void add_leaf(Batch& batch, const Awaited& content, const std::byte* data, std::size_t size);
  void start_leaves(Batch& batch);
  void close(Batch& batch);
  void deliver_oldest(DeviceStream::Progress progress);
  void wait_for_oldest();
  void take(const Batch& batch, std::size_t leaf);
  [[nodiscard]] std::size_t slot(const Batch& batch, std::size_t leaf) const noexcept {
    return batch.place * size_.leaves + leaf;
  }

  DeviceStream& device_;
  RingSize size_;
  kernel::LeafOrder* orders_ = nullptr;
  kernel::LeafResult* results_ = nullptr;
  std::byte* copied_ = nullptr;
  std::deque<Batch> open_;  ///< the oldest first
  std::uint64_t begun_ = 0;
  std::uint64_t stalls_ = 0;
  bool is_broken_ = false;  ///< nobody can say any more when the memory is free
};

}  // namespace repro_check::capture
