// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace repro_check::core {

/// Memory to read files into, kept between reads. It begins at a page, as what is large in a file
/// does: the kernel of some processors copies four times slower between places that lie differently
/// within a cache line, and what malloc() returns for large blocks lies 16 bytes into one.
class AlignedBuffer {
 public:
  /// Room for `size` bytes, whose content is unspecified; valid until more is asked for.
  std::span<std::byte> room(std::size_t size) {
    if (size > size_) enlarge(size);
    return {memory_.get(), size};
  }

 private:
  static constexpr std::size_t kPage = 4096;

  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  void enlarge(std::size_t size) {
    const std::size_t whole = (size + kPage - 1) / kPage * kPage;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
    size_ = memory_ ? whole : 0;
    if (!memory_) throw std::bad_alloc();
  }

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace repro_check::core
