// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/staging_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "dumpers/store/file/direct_file.h"

namespace repro_check::store {
namespace {

/// A huge page makes 512 page faults one, and 512 pages to pin for a direct write one.
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::size_t whole_blocks(std::size_t size) noexcept {
  return (size + kDirectBlock - 1) / kDirectBlock * kDirectBlock;
}

}  // namespace

void StagingBuffer::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

std::size_t StagingBuffer::size_for(std::size_t memory) noexcept {
  constexpr std::size_t kEnough = 16;
  return std::clamp(memory / kEnough, kLeastBytes, kMostBytes) / kHugePage * kHugePage;
}

StagingBuffer::StagingBuffer(std::size_t bytes)
    : bytes_(bytes), memory_(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes))) {
  if (memory_ == nullptr) {
    throw core::Error(core::ErrorKind::kIo,
                      "there is no memory for a buffer between the model and the disk",
                      "lower dump.memory, or record with dump.level \"digest\"");
  }
  (void)::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish; many kernels have none
}

std::size_t StagingBuffer::take(std::uint64_t offset,
                                const core::ContentBytes& bytes,
                                std::size_t begin) {
  const std::size_t length = std::min(bytes_ - used_, bytes.size() - begin);
  const std::span<std::byte> room{memory_.get() + used_, length};
  bytes.read(begin, room);
  pieces_.push_back({offset + begin, room});
  used_ += whole_blocks(length);
  return length;
}

void StagingBuffer::write_to(DirectFile& file) const {
  for (const Piece& piece : pieces_) file.write(piece.offset, piece.bytes);
}

void StagingBuffer::clear() noexcept {
  pieces_.clear();
  used_ = 0;
}

}  // namespace repro_check::store
