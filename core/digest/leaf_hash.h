// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/digest/digest.h"

namespace repro_check::core::detail {

/// A hash under way, for the library's own type.
struct alignas(64) LeafHashState {
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array has external linkage
  std::byte bytes[576];
};

/// XXH3-128 with the widest registers that one unit was compiled for: the digest is the same, the
/// speed is not (16, 27 and 37 GB/s a core where it was measured).
/// Plain arguments: an inline function of the library that such a unit had to emit could be the
/// copy that the whole program gets, on processors that cannot run it.
struct LeafHash {
  Digest (*whole)(const std::byte* data, std::size_t size) noexcept;
  /// The same of bytes that come in pieces.
  void (*begin)(LeafHashState& state) noexcept;
  void (*add)(LeafHashState& state, const std::byte* data, std::size_t size) noexcept;
  Digest (*finish)(LeafHashState& state) noexcept;
};

LeafHash portable_leaf_hash() noexcept;
LeafHash avx2_leaf_hash() noexcept;
LeafHash avx512_leaf_hash() noexcept;

/// Every one of them that this processor can run, the fastest first.
std::span<const LeafHash> runnable_leaf_hashes() noexcept;
const LeafHash& fastest_leaf_hash() noexcept;

}  // namespace repro_check::core::detail
