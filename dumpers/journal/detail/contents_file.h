// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/content/content_bytes.h"
#include "core/system/file_descriptor.h"

namespace repro_check::journal {

/// Bytes of contents, one behind the other, each at the beginning of a page. The file is made when
/// the first come.
class ContentsFile {
 public:
  explicit ContentsFile(std::filesystem::path file);

  /// @return where in the file they are; after a failure the place is used again
  /// @throws core::Error{kIo}
  std::uint64_t append(const core::ContentBytes& bytes);

  /// Forces what was appended to the disk.
  void sync();

 private:
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;

  std::filesystem::path file_;
  core::FileDescriptor opened_;
  std::uint64_t end_ = 0;
  std::vector<std::byte> piece_;
};

}  // namespace repro_check::journal
