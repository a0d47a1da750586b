// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {

/// Bytes of the file, lent for as long as they are held.
struct LentBytes {
  std::shared_ptr<const std::vector<std::byte>> owner;
  std::span<const std::byte> bytes;
};

/// Reads small contents that are asked for in the order in which they lie many at once: a system
/// call each would cost more than everything else that is done with them. For one thread at a time.
class PackedWindow {
 public:
  /// @param packed  where all of them lie
  /// @return the bytes of `content`, or nothing where it does not follow the one asked for before,
  ///         or the file cannot be read so: then whoever reads it alone will see why
  LentBytes find(const TraceFile& file, const Extent& packed, const Extent& content);

 private:
  std::uint64_t expected_ = 0;  ///< where the last content ended
  std::uint64_t begin_ = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

}  // namespace repro_check::store
