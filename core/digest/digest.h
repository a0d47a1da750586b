// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace repro_check::core {

/// Name of the rule below, recorded in every dump: digests of another rule are not comparable.
inline constexpr std::string_view kDigestAlgorithm = "xxh3-128-tree-1MiB";

/// Bytes in a leaf of the tree.
inline constexpr std::size_t kDigestChunk = std::size_t{1} << 20U;

/// XXH3-128 of content bytes: logical order, row-major, little-endian. It covers the bytes only;
/// dtype and shape always stand beside it. Not cryptographic.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const Digest&) const = default;
};

/// Digest of one leaf, or of any short byte string.
Digest digest_leaf(std::span<const std::byte> bytes) noexcept;

/// Digest of a whole tensor from the digests of its leaves, in order. One leaf is its own digest;
/// more are the XXH3-128 of the concatenated (high, low) pairs, little-endian.
/// @param leaves  at least one
Digest digest_of_leaves(std::span<const Digest> leaves);

/// Digest of `bytes` by the rule of kDigestAlgorithm, on the calling thread.
Digest digest_bytes(std::span<const std::byte> bytes);

/// 32 lower-case hexadecimal characters, high half first.
std::string to_hex(const Digest& digest);
std::optional<Digest> parse_digest(std::string_view hex) noexcept;

}  // namespace repro_check::core
