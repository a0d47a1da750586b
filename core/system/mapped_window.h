// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace repro_check::core {

struct WindowGuard;

/// A part of a file as shared memory. Where another process cuts a file that is mapped, the kernel
/// answers the next write with SIGBUS, which would end this one: a window that can be written gets
/// other memory in its place then. The handler of that signal that was there before is called for
/// every other cause.
class MappedWindow {
 public:
  MappedWindow() = default;
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;
  MappedWindow(MappedWindow&& other) noexcept;
  MappedWindow& operator=(MappedWindow&& other) noexcept;
  ~MappedWindow();

  /// Of an object that is not mapped.
  /// @param begin  offset in the file, of a page
  /// @param protection  PROT_READ, PROT_WRITE
  /// @return false with errno set
  bool map(int descriptor, std::uint64_t begin, std::size_t size, int protection) noexcept;

  [[nodiscard]] bool is_mapped() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether a write found that the file was cut: nothing that was written since is in it.
  [[nodiscard]] bool was_cut() const noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  WindowGuard* guard_ = nullptr;  ///< null where it cannot be written
};

}  // namespace repro_check::core
