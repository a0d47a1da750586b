// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/detail/content_writer.h"

#include <fmt/format.h>

#include <utility>

#include "core/dtype.h"
#include "core/error.h"
#include "core/tensor_view.h"

namespace repro_check::store {
namespace {

constexpr std::size_t kArena = std::size_t{32} << 20U;

void check_size(const core::ContentKey& key, std::size_t bytes) {
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  const std::size_t element = core::element_size(key.dtype);
  if (element != 0 && elements == bytes / element && bytes % element == 0) return;
  throw core::Error(core::ErrorKind::kInternal,
                    fmt::format("content {} was handed {} bytes", core::content_name(key), bytes));
}

}  // namespace

ContentWriter::ContentWriter(std::filesystem::path trace,
                             hid_t group,
                             Blame blame,
                             std::size_t memory)
    : trace_(std::move(trace)), datasets_(group, std::move(blame)), memory_(memory) {}

void ContentWriter::put(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (known_.contains(key)) return;
  check_size(key, bytes.size());
  const bool small = bytes.size() <= kSmallContent;
  if (!small) put_big(key, bytes);
  const core::ContentKey& kept = *known_.insert(key).first;
  keys_.push_back(&kept);
  stored_bytes_ += bytes.size();
  if (small) put_small(kept, bytes);
}

void ContentWriter::put_big(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (!file_) file_.emplace(trace_);
  if (!queue_) queue_.emplace(*file_, memory_);
  queue_->check();
  queue_->put(datasets_.allocate(key), bytes);
}

void ContentWriter::put_small(const core::ContentKey& key, const core::ContentBytes& bytes) {
  const std::size_t begin = arena_.size();
  pending_.push_back({&key, begin, bytes.size()});
  arena_.resize(begin + bytes.size());
  bytes.read(0, std::span<std::byte>(arena_).subspan(begin));
  if (arena_.size() >= kArena) flush_small();
}

void ContentWriter::check() {
  if (queue_) queue_->check();
}

void ContentWriter::flush() {
  flush_small();
  if (queue_) queue_->drain();
}

void ContentWriter::flush_small() {
  for (const Pending& content : pending_) {
    datasets_.write(*content.key,
                    std::span<const std::byte>(arena_).subspan(content.offset, content.size));
  }
  pending_.clear();
  arena_.clear();
}

}  // namespace repro_check::store
