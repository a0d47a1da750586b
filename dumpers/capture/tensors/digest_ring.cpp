// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/digest_ring.h"

#include <algorithm>

#include "core/tensor/tensor_stats.h"

namespace repro_check::capture {

kernel::Odd kernel::odd_of(core::Dtype dtype) {
  const core::Spelling spelling = core::spelling_of(dtype);
  const std::uint64_t width = spelling.odd.width;
  if (width == 0) return {};
  // 1 in each element of a word.
  const std::uint64_t ones =
      width == 8 ? 1 : ~std::uint64_t{0} / ((std::uint64_t{1} << 8 * width) - 1);
  return {static_cast<std::uint32_t>(width),
          spelling.sign != 0 ? 1U : 0U,
          spelling.odd.mask,
          spelling.odd.flip,
          spelling.odd.top,
          spelling.odd.top | spelling.sign,
          spelling.odd.mask * ones,
          (spelling.odd.flip ^ spelling.odd.top) * ones,
          ones,
          ones << (8 * width - 1)};
}

namespace {

using Progress = DeviceStream::Progress;
using State = AwaitedContent::State;

/// Up to here a leaf is hashed on the host.
constexpr std::size_t kCopied = 1024;
static_assert(kCopied >= kernel::kShort && kCopied >= AwaitedContent::kKept);

std::size_t leaves_of(std::size_t bytes) {
  return std::max<std::size_t>((bytes + core::kDigestChunk - 1) / core::kDigestChunk, 1);
}

}  // namespace

Awaited known_content(const ContentSummary& summary) {
  auto content = std::make_shared<AwaitedContent>();
  content->state = State::kRead;
  content->summary = summary;
  return content;
}

Awaited unread_content() {
  auto content = std::make_shared<AwaitedContent>();
  content->state = State::kUnread;
  return content;
}

DigestRing::DigestRing(DeviceStream& device, RingSize size) : device_(device), size_(size) {}

bool DigestRing::has_memory() {
  if (is_broken_) return false;
  if (orders_ != nullptr) return true;
  const std::size_t slots = size_.batches * size_.leaves;
  constexpr std::size_t kEach = sizeof(kernel::LeafOrder) + sizeof(kernel::LeafResult) + kCopied;
  std::byte* memory = device_.allocate(slots * kEach);
  if (memory == nullptr) return false;
  copied_ = memory;
  orders_ = reinterpret_cast<kernel::LeafOrder*>(copied_ + slots * kCopied);
  results_ = reinterpret_cast<kernel::LeafResult*>(orders_ + slots);
  return true;
}

std::vector<Awaited> DigestRing::start(std::span<const Content> contents) {
  const auto stream = device_.current();
  if (!stream || !has_memory()) return {};
  std::vector<Awaited> awaited;
  awaited.reserve(contents.size());
  for (const Content& each : contents) {
    const Awaited& content = awaited.emplace_back(std::make_shared<AwaitedContent>());
    content->ring = this;
    content->stream = *stream;
    content->dtype = each.dtype;
    content->missing = leaves_of(each.bytes);
    std::size_t begin = 0;
    do {
      const std::size_t size = std::min(core::kDigestChunk, each.bytes - begin);
      add_leaf(batch_for(*stream), content, each.data + begin, size);
      begin += size;
    } while (begin < each.bytes);
  }
  if (!open_.empty()) start_leaves(open_.back());
  return awaited;
}

DigestRing::Batch& DigestRing::batch_for(DeviceStream::Handle stream) {
  if (!open_.empty()) {
    Batch& last = open_.back();
    if (!last.is_closed && last.stream == stream && last.leaves.size() < size_.leaves) return last;
    close(last);
  }
  if (open_.size() == size_.batches) {
    ++stalls_;
    wait_for_oldest();
  }
  Batch& batch = open_.emplace_back();
  batch.place = begun_++ % size_.batches;
  batch.stream = stream;
  batch.leaves.reserve(size_.leaves);
  return batch;
}

void DigestRing::add_leaf(Batch& batch,
                          const Awaited& content,
                          const std::byte* data,
                          std::size_t size) {
  const std::size_t place = slot(batch, batch.leaves.size());
  const std::size_t in_launch = batch.leaves.size() - batch.started;
  batch.leaves.push_back({content, size});
  orders_[place] = {reinterpret_cast<const kernel::u8*>(data),
                    static_cast<std::uint32_t>(size),
                    size <= kCopied ? static_cast<std::uint32_t>(1 + in_launch * kCopied) : 0,
                    kernel::odd_of(content->dtype)};
}

void DigestRing::start_leaves(Batch& batch) {
  const std::size_t count = batch.leaves.size() - batch.started;
  if (count == 0) return;
  const std::size_t first = slot(batch, batch.started);
  batch.started = batch.leaves.size();
  const bool is_started =
      !is_broken_ &&
      device_.start(
          batch.stream, orders_ + first, results_ + first, copied_ + first * kCopied, count);
  batch.is_lost = batch.is_lost || !is_started;
  // Not when the batch is full: by then the stream may capture a graph, of which it would be part.
  is_broken_ = is_broken_ || !device_.record(batch.place, batch.stream);
}

void DigestRing::close(Batch& batch) {
  start_leaves(batch);
  batch.is_closed = true;
}

void DigestRing::poll() {
  while (!open_.empty() && open_.front().is_closed) {
    const Progress progress = is_broken_ ? Progress::kFailed : device_.query(open_.front().place);
    if (progress == Progress::kGoing) return;
    deliver_oldest(progress);
  }
}

void DigestRing::wait_for_oldest() {
  Batch& oldest = open_.front();
  close(oldest);
  deliver_oldest(is_broken_ ? Progress::kFailed : device_.wait(oldest.place));
}

void DigestRing::wait_for(AwaitedContent& content) {
  while (content.state == State::kOnTheWay && !open_.empty()) wait_for_oldest();
  if (content.state == State::kOnTheWay) content.state = State::kUnread;
}

void DigestRing::deliver_oldest(Progress progress) {
  const Batch batch = std::move(open_.front());
  open_.pop_front();
  // What failed once on a device fails for ever.
  is_broken_ = is_broken_ || progress == Progress::kFailed;
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    AwaitedContent& content = *batch.leaves[i].content;
    if (batch.is_lost || is_broken_) content.state = State::kUnread;
    if (content.state == State::kOnTheWay) take(batch, i);
  }
}

void DigestRing::take(const Batch& batch, std::size_t leaf) {
  const auto& [content, size] = batch.leaves[leaf];
  const std::size_t place = slot(batch, leaf);
  core::NonFinite& counts = content->summary.non_finite;
  if (size <= kCopied) {
    const auto bytes = std::span(copied_ + place * kCopied, size);
    const core::CountedLeaf counted = core::count_leaf(content->dtype, bytes);
    counts += counted.counts;
    content->leaves.push_back(counted.digest);
    if (content->leaves.size() == 1 && size <= AwaitedContent::kKept) {
      content->bytes.assign(bytes.begin(), bytes.end());
    }
  } else {
    const kernel::LeafResult& found = results_[place];
    counts += {found.odd - found.positive - found.negative, found.positive, found.negative};
    content->leaves.push_back({found.high, found.low});
  }
  if (--content->missing != 0) return;
  content->summary.digest = core::digest_of_leaves(content->leaves);
  content->state = State::kRead;
  content->leaves = {};
}

}  // namespace repro_check::capture
