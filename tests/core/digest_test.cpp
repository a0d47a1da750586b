// SPDX-License-Identifier: Apache-2.0
#include "core/digest/digest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace repro_check::core {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31U + (i >> 8U));
  return bytes;
}

TEST_CASE("a leaf is XXH3-128, as its reference implementation prints it") {
  // From `printf ... | xxhsum -H2`.
  CHECK(to_hex(digest_leaf({})) == "99aa06d3014798d86001c324468d497f");
  CHECK(to_hex(digest_leaf(bytes_of("abc"))) == "06b05ab6733a618578af5f94892f3950");
}

TEST_CASE("every instruction set this processor has gives the same digest") {
  const auto bytes = pattern(kDigestChunk);
  for (const std::size_t size :
       {0UL, 1UL, 16UL, 17UL, 240UL, 241UL, 1025UL, 65537UL, bytes.size()}) {
    CAPTURE(size);
    const Digest expected = detail::portable_leaf_hash().whole(bytes.data(), size);
    for (const detail::LeafHash& hash : detail::runnable_leaf_hashes()) {
      CHECK(hash.whole(bytes.data(), size) == expected);
      for (const std::size_t piece : {1UL, 100UL, 8192UL}) {
        detail::LeafHashState state;
        hash.begin(state);
        for (std::size_t begin = 0; begin < size; begin += piece) {
          hash.add(state, bytes.data() + begin, std::min(piece, size - begin));
        }
        CHECK(hash.finish(state) == expected);
      }
    }
  }
}

TEST_CASE("up to one chunk the digest is that of the bytes") {
  const auto bytes = pattern(kDigestChunk);
  CHECK(digest_bytes(bytes) == digest_leaf(bytes));
  CHECK(digest_bytes(std::span<const std::byte>()) == digest_leaf({}));
}

TEST_CASE("beyond one chunk the digest is that of the chunks' digests") {
  const auto bytes = pattern(2 * kDigestChunk + 5);
  const std::span<const std::byte> all(bytes);
  std::vector<std::byte> concatenated;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kDigestChunk) {
    const auto leaf = digest_leaf(all.subspan(begin, std::min(kDigestChunk, bytes.size() - begin)));
    for (const std::uint64_t half : {leaf.high, leaf.low}) {
      for (unsigned shift = 0; shift < 64; shift += 8) {
        concatenated.push_back(static_cast<std::byte>(half >> shift));
      }
    }
  }
  CHECK(digest_bytes(bytes) == digest_leaf(concatenated));
}

TEST_CASE("one flipped bit anywhere gives another digest") {
  auto bytes = pattern(kDigestChunk + 100);
  const Digest before = digest_bytes(bytes);
  for (const std::size_t at : {std::size_t{0}, kDigestChunk - 1, kDigestChunk, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    CHECK(digest_bytes(bytes) != before);
    bytes[at] ^= std::byte{1};
  }
  CHECK(digest_bytes(bytes) == before);
}

TEST_CASE("hexadecimal reads back, and nothing else reads") {
  const Digest digest{0x0123456789abcdefU, 0xfedcba9876543210U};
  CHECK(to_hex(digest) == "0123456789abcdeffedcba9876543210");
  CHECK(parse_digest(to_hex(digest)) == digest);
  CHECK_FALSE(parse_digest(""));
  CHECK_FALSE(parse_digest("0123456789abcdeffedcba987654321"));
  CHECK_FALSE(parse_digest("0123456789abcdeffedcba98765432100"));
  CHECK_FALSE(parse_digest("0123456789ABCDEFfedcba9876543210"));
  CHECK_FALSE(parse_digest("+123456789abcdeffedcba9876543210"));
}

}  // namespace
}  // namespace repro_check::core
