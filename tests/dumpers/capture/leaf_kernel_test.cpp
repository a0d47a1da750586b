// SPDX-License-Identifier: Apache-2.0
// What a GPU would do, with all of its threads played one after the other.
#include "dumpers/capture/tensors/leaf_kernel.h"

#include <array>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_stats.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

core::CountedLeaf digest_as_device(core::Dtype dtype, std::span<const std::byte> content) {
  using namespace kernel;
  const LeafOrder leaf{reinterpret_cast<const u8*>(content.data()),
                       static_cast<u32>(content.size()),
                       0,
                       odd_of(dtype)};
  std::array<u64, kWords> secret{};
  for (u32 i = 0; i < kWords; ++i) secret[i] = secret_word(i);
  std::array<u64, kLanes> states{};
  for (u32 lane = 0; lane < kLanes; ++lane) states[lane] = first_state(lane);
  LeafResult result{};
  std::array<u64, std::size_t{kTile} * kLanes> sums{};
  for (u32 tile = 0; tile <= whole_blocks(leaf) / kTile; ++tile) {
    for (u32 thread = 0; thread < kReaders; ++thread) {
      read_tile(leaf, secret.data(), tile, thread, sums.data(), result);
    }
    for (u32 lane = 0; lane < kLanes; ++lane) {
      states[lane] = follow(states[lane], leaf, secret[16 + lane], tile, sums.data() + lane);
    }
  }
  put_digest(states.data(), secret.data(), leaf.size, result);
  return {{result.high, result.low},
          {result.odd - result.positive - result.negative, result.positive, result.negative}};
}

struct alignas(16) Piece {
  std::array<std::byte, 16> bytes;
};

/// Of any bits, and many of them no numbers.
std::vector<Piece> made_up(core::Dtype dtype) {
  std::vector<Piece> memory(core::kDigestChunk / sizeof(Piece));
  const auto bytes = std::as_writable_bytes(std::span(memory));
  std::mt19937 random(7);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const core::Spelling spelling = core::spelling_of(dtype);
  const std::size_t width = spelling.odd.width;
  if (width == 0) return memory;
  for (std::size_t i = 0; i < bytes.size() / width; i += 1 + random() % 50) {
    const std::array<std::uint64_t, 4> odd{spelling.odd.top,
                                           spelling.odd.top | spelling.sign,
                                           spelling.odd.top ^ spelling.odd.flip,
                                           spelling.odd.top | 1U};
    std::memcpy(&bytes[i * width], &odd[random() % odd.size()], width);
  }
  return memory;
}

DOCTEST_TEST_CASE("a device finds the digests and counts of the host") {
  for (const core::Dtype dtype : {core::Dtype::kFloat32,
                                  core::Dtype::kFloat64,
                                  core::Dtype::kFloat16,
                                  core::Dtype::kBFloat16,
                                  core::Dtype::kFloat8E4M3FN,
                                  core::Dtype::kFloat8E4M3FNUZ,
                                  core::Dtype::kFloat8E8M0FNU,
                                  core::Dtype::kFloat8E5M2,
                                  core::Dtype::kComplex64,
                                  core::Dtype::kInt64,
                                  core::Dtype::kUInt8}) {
    const std::vector<Piece> memory = made_up(dtype);
    for (const std::size_t size : {248U,
                                   256U,
                                   264U,
                                   1016U,
                                   1024U,
                                   1032U,
                                   1088U,
                                   1096U,
                                   16384U,
                                   16392U,
                                   17408U,
                                   65536U,
                                   65544U,
                                   66560U,
                                   82000U,
                                   131072U,
                                   777768U,
                                   1048568U,
                                   1048576U}) {
      DOCTEST_CAPTURE(core::dtype_name(dtype));
      DOCTEST_CAPTURE(size);
      const auto content = std::as_bytes(std::span(memory)).first(size);
      const core::CountedLeaf expected = core::count_leaf(dtype, content);
      const core::CountedLeaf found = digest_as_device(dtype, content);
      DOCTEST_CHECK(found.digest == expected.digest);
      DOCTEST_CHECK(found.counts == expected.counts);
    }
  }
}

DOCTEST_TEST_CASE("a device is given the same code as a text") {
  const std::string_view text = kernel::kText;
  DOCTEST_CHECK(text.find("digest_leaves") != std::string_view::npos);
  DOCTEST_CHECK(text.find("DEVICE u64 follow(") != std::string_view::npos);
  DOCTEST_CHECK(text.find("//") == std::string_view::npos);
}

}  // namespace
}  // namespace repro_check::capture
