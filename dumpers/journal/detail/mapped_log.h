// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace repro_check::journal {

/// A new file that grows at its end through a shared mapping. What append() has returned for is in
/// the page cache and survives the death of the process; it is not forced to the disk.
class MappedLog {
 public:
  /// @throws core::Error{kIo}; an existing file is refused
  explicit MappedLog(std::filesystem::path file);
  MappedLog(const MappedLog&) = delete;
  MappedLog& operator=(const MappedLog&) = delete;
  MappedLog(MappedLog&&) = delete;
  MappedLog& operator=(MappedLog&&) = delete;
  ~MappedLog();

  /// @throws core::Error{kIo} when the file cannot grow; it is as before then
  void append(std::span<const std::byte> bytes) {
    if (bytes.size() > room_) grow(bytes.size());
    store(bytes);
  }

  /// As append(), but may use the space that every window keeps back for a last word.
  /// @return the bytes written: fewer when even that space is too small
  [[nodiscard]] std::size_t last_room() const noexcept { return room_ + reserve_; }
  void append_last(std::span<const std::byte> bytes);

  /// Unmaps and cuts the file to what was appended.
  void close();

 private:
  void grow(std::size_t needed);
  void store(std::span<const std::byte> bytes) noexcept;
  void unmap() noexcept;
  [[noreturn]] void fail(std::string_view what, int code) const;

  std::filesystem::path file_;
  int fd_ = -1;
  std::byte* window_ = nullptr;
  std::size_t window_size_ = 0;
  std::uint64_t window_begin_ = 0;  ///< offset of the window in the file
  std::size_t next_size_;
  std::size_t used_ = 0;     ///< of the window
  std::size_t room_ = 0;     ///< left in the window, without the reserve
  std::size_t reserve_ = 0;  ///< left for a last word
};

}  // namespace repro_check::journal
