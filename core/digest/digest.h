// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
inline Digest digest_bytes(std::string_view text) {
  return digest_bytes(std::as_bytes(std::span(text)));
}

/// 32 lower-case hexadecimal characters, high half first.
std::string to_hex(const Digest& digest);
std::optional<Digest> parse_digest(std::string_view hex) noexcept;

namespace detail {

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

}  // namespace detail

/// digest_bytes() over bytes that come piece by piece, without a copy of them.
class DigestStream {
 public:
  DigestStream();

  void add(std::span<const std::byte> bytes);

  /// Of all that was added. To be called once.
  [[nodiscard]] Digest finish();

 private:
  void close_leaf();

  detail::LeafHashState state_;
  std::size_t in_leaf_ = 0;
  std::vector<Digest> leaves_;
};

/// digest_bytes() of what a file holds, however long it is.
/// @throws Error{kUsage} when it cannot be read
Digest digest_file(const std::filesystem::path& file);

}  // namespace repro_check::core
