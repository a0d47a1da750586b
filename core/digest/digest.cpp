// SPDX-License-Identifier: Apache-2.0
#include "core/digest/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <fstream>

#include "core/error.h"
#include "core/system/instruction_set.h"

namespace repro_check::core {

static_assert(std::endian::native == std::endian::little,
              "digests are defined over little-endian bytes; a big-endian host must swap first");

std::span<const detail::LeafHash> detail::runnable_leaf_hashes() noexcept {
  static const std::array<LeafHash, 3> hashes{
      avx512_leaf_hash(), avx2_leaf_hash(), portable_leaf_hash()};
  return runnable(hashes);
}

const detail::LeafHash& detail::fastest_leaf_hash() noexcept {
  static const LeafHash& fastest = runnable_leaf_hashes().front();
  return fastest;
}

Digest digest_leaf(std::span<const std::byte> bytes) noexcept {
  return detail::fastest_leaf_hash().whole(bytes.data(), bytes.size());
}

Digest digest_of_leaves(std::span<const Digest> leaves) {
  if (leaves.size() == 1) return leaves.front();
  static_assert(sizeof(Digest) == 16);
  return digest_leaf(std::as_bytes(leaves));
}

Digest digest_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() <= kDigestChunk) return digest_leaf(bytes);
  std::vector<Digest> leaves;
  leaves.reserve((bytes.size() + kDigestChunk - 1) / kDigestChunk);
  for (std::size_t begin = 0; begin < bytes.size(); begin += kDigestChunk) {
    leaves.push_back(
        digest_leaf(bytes.subspan(begin, std::min(kDigestChunk, bytes.size() - begin))));
  }
  return digest_of_leaves(leaves);
}

std::string to_hex(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

std::optional<Digest> parse_digest(std::string_view hex) noexcept {
  constexpr std::size_t kHalf = 16;
  constexpr int kBase = 16;
  if (hex.size() != 2 * kHalf) return std::nullopt;
  if (hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::array<std::uint64_t, 2> halves{};
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const std::string_view part = hex.substr(i * kHalf, kHalf);
    std::from_chars(part.data(), part.data() + part.size(), halves[i], kBase);
  }
  return Digest{halves[0], halves[1]};
}

DigestStream::DigestStream() { detail::fastest_leaf_hash().begin(state_); }

void DigestStream::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (in_leaf_ == kDigestChunk) close_leaf();  // only once more bytes follow it
    const std::size_t taken = std::min(bytes.size(), kDigestChunk - in_leaf_);
    detail::fastest_leaf_hash().add(state_, bytes.data(), taken);
    in_leaf_ += taken;
    bytes = bytes.subspan(taken);
  }
}

Digest DigestStream::finish() {
  close_leaf();
  return digest_of_leaves(leaves_);
}

void DigestStream::close_leaf() {
  leaves_.push_back(detail::fastest_leaf_hash().finish(state_));
  detail::fastest_leaf_hash().begin(state_);
  in_leaf_ = 0;
}

Digest digest_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(kDigestChunk);
  DigestStream digest;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    digest.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(in.gcount()))));
  }
  if (!in.eof()) {
    throw usage_error(file.string() + ": cannot be read", "check its permissions");
  }
  return digest.finish();
}

}  // namespace repro_check::core
