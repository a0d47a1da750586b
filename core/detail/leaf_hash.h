// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/digest.h"

namespace repro_check::core::detail {

/// XXH3-128 with the widest registers that one unit was compiled for: the digest is the same, the
/// speed is not (16, 27 and 37 GB/s a core where it was measured).
/// Plain arguments: an inline function of the library that such a unit had to emit could be the
/// copy that the whole program gets, on processors that cannot run it.
using LeafHash = Digest (*)(const std::byte* data, std::size_t size) noexcept;

Digest leaf_hash_portable(const std::byte* data, std::size_t size) noexcept;
Digest leaf_hash_avx2(const std::byte* data, std::size_t size) noexcept;
Digest leaf_hash_avx512(const std::byte* data, std::size_t size) noexcept;

/// Every one of them that this processor can run, the fastest first.
std::span<const LeafHash> runnable_leaf_hashes() noexcept;

}  // namespace repro_check::core::detail
