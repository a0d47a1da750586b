// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/content/content_bytes.h"

namespace repro_check::store {

class DirectFile;

/// Bytes on their way to the disk: a block of aligned memory that holds pieces of contents, each
/// with the place in the file where it belongs.
class StagingBuffer {
 public:
  /// How large one may be. Fewer and larger writes reach more of a disk.
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

  /// The size for buffers that share `memory` bytes.
  [[nodiscard]] static std::size_t size_for(std::size_t memory) noexcept;

  /// @param bytes  from size_for()
  /// @throws core::Error{kIo} when there is no memory
  explicit StagingBuffer(std::size_t bytes);

  /// Copies as much of `bytes` from `begin` on as there is room for.
  /// @param offset  where byte 0 of `bytes` belongs in the file
  /// @return how many bytes that were; at least one block where the buffer is not full
  std::size_t take(std::uint64_t offset, const core::ContentBytes& bytes, std::size_t begin);

  [[nodiscard]] bool full() const noexcept { return used_ == bytes_; }
  [[nodiscard]] bool empty() const noexcept { return used_ == 0; }

  void write_to(DirectFile& file) const;
  void clear() noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Piece {
    std::uint64_t offset;  ///< in the file
    std::span<const std::byte> bytes;
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t used_ = 0;  ///< a multiple of the block
  std::vector<Piece> pieces_;
};

}  // namespace repro_check::store
