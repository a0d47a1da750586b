// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {

struct Entry {
  EntryKind kind = EntryKind::kFail;
  std::uint64_t offset = 0;            ///< of its header in the file
  std::span<const std::byte> payload;  ///< borrowed until the next call
};

/// Reads a journal entry by entry, up to the first that is not whole. Nothing in the file is
/// believed: a length is checked against what the file holds before memory is asked for.
class EntryReader {
 public:
  /// @throws core::Error{kDumpUnknown} when it is no journal or of another version; {kIo}
  explicit EntryReader(const std::filesystem::path& file);

  std::optional<Entry> next();
  /// Goes on at an entry that was read before.
  void go_to(std::uint64_t offset) noexcept {
    position_ = offset;
    ended_ = false;
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void check_header();
  /// The bytes at the current position, or fewer where the file ends.
  std::span<const std::byte> peek(std::size_t size);

  std::string path_;
  core::FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_begin_ = 0;
  std::size_t buffer_size_ = 0;
  bool ended_ = false;
};

}  // namespace repro_check::journal
