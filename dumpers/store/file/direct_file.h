// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace repro_check::store {

/// What offset, length and memory of a direct write are multiples of.
inline constexpr std::size_t kDirectBlock = 4096;

/// An existing file, written at given offsets: whole blocks past the page cache where the file
/// system can, everything else through it. Nothing outside the given range is touched, so that
/// somebody else may write what lies next to it.
class DirectFile {
 public:
  /// @throws core::Error{kIo}
  explicit DirectFile(std::filesystem::path file);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  DirectFile(DirectFile&&) = delete;
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile();

  /// Whether blocks go past the page cache; the first write may show that they cannot. From any
  /// thread.
  [[nodiscard]] bool direct() const noexcept { return direct_; }

  /// Writes all of `bytes`; fastest where both `offset` and their address are aligned.
  /// @throws core::Error{kIo}
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  [[nodiscard]] bool can_be_direct(std::uint64_t offset,
                                   std::span<const std::byte> bytes) const noexcept;

  std::filesystem::path file_;
  int ordinary_fd_ = -1;
  int direct_fd_ = -1;
  std::atomic<bool> direct_ = false;
};

}  // namespace repro_check::store
