// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/stats_block.h"
#include "core/tensor/tensor_stats.h"

namespace repro_check::core {
namespace {

constexpr std::array kAllDtypes = [] {
  std::array<Dtype, static_cast<std::size_t>(Dtype::kQInt32)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Dtype>(i + 1);
  return all;
}();

/// Element by element, from what each code stands for.
NonFinite one_by_one(Dtype dtype, std::span<const std::byte> content) {
  const Dtype part = part_dtype(dtype);
  const std::size_t size = element_size(part);
  NonFinite counts;
  if (!is_floating(part) || part == Dtype::kFloat4E2M1FNX2) return counts;
  for (std::size_t at = 0; at < content.size(); at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, content.data() + at, size);
    const double value = decode_float(part, bits);
    counts.nans += std::isnan(value) ? 1U : 0U;
    if (std::isinf(value)) ++(value > 0 ? counts.positive_infs : counts.negative_infs);
  }
  return counts;
}

NonFinite counts_of(Dtype dtype, std::span<const std::byte> content) {
  return count_leaf(dtype, content).counts;
}

/// Bytes of which about one in `rarity` makes an exponent of all ones, in any dtype.
std::vector<std::byte> random_bytes(std::size_t size, unsigned rarity, unsigned seed) {
  std::mt19937 random(seed);
  constexpr std::array<unsigned char, 8> kOdd{0x7F, 0xFF, 0x7C, 0xFC, 0x80, 0xF0, 0x00, 0xF8};
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random() % 0x3C);
    if (rarity != 0 && random() % rarity == 0) byte = std::byte{kOdd[random() % kOdd.size()]};
  }
  return bytes;
}

}  // namespace

TEST_CASE("every code of a short dtype is told apart as it decodes") {
  std::vector<std::byte> codes;
  for (unsigned code = 0; code < 65536; ++code) {
    codes.push_back(std::byte(code & 0xFFU));
    codes.push_back(std::byte(code >> 8U));
  }
  for (const Dtype dtype : kAllDtypes) {
    CAPTURE(dtype_name(dtype));
    CHECK(counts_of(dtype, codes) == one_by_one(dtype, codes));
    for (std::size_t code = 0; code < 65536; code += 7) {
      const auto one = std::span(codes).subspan(2 * code, 2);
      if (element_size(dtype) <= 2) REQUIRE(counts_of(dtype, one) == one_by_one(dtype, one));
    }
  }
}

TEST_CASE("counts are those of the elements one by one, at every length and alignment") {
  for (const unsigned rarity : {0U, 2U, 5000U}) {
    const std::vector<std::byte> bytes = random_bytes(80'000, rarity, rarity + 1);
    for (const Dtype dtype : kAllDtypes) {
      const std::size_t size = element_size(dtype);
      for (const std::size_t elements :
           {0UL, 1UL, 3UL, 15UL, 16UL, 17UL, 63UL, 64UL, 65UL, 257UL, 1023UL, 4097UL}) {
        for (const std::size_t begin : {0UL, 1UL, 13UL}) {
          CAPTURE(dtype_name(dtype));
          CAPTURE(elements);
          CAPTURE(begin);
          const auto content = std::span(bytes).subspan(begin, elements * size);
          REQUIRE(counts_of(dtype, content) == one_by_one(dtype, content));
        }
      }
    }
  }
}

TEST_CASE("one element that is no number is found wherever it stands, by every instruction set") {
  // One more of 300 zeros, so that each place of a vector and of what follows it comes up.
  for (const auto& [dtype, nan] : {std::pair{Dtype::kFloat32, std::uint64_t{0x7FC0'0000}},
                                   std::pair{Dtype::kFloat64, std::uint64_t{0xFFF8} << 48U},
                                   std::pair{Dtype::kFloat16, std::uint64_t{0xFE00}},
                                   std::pair{Dtype::kBFloat16, std::uint64_t{0x7FC0}},
                                   std::pair{Dtype::kFloat8E5M2, std::uint64_t{0xFE}},
                                   std::pair{Dtype::kFloat8E4M3FN, std::uint64_t{0xFF}},
                                   std::pair{Dtype::kFloat8E4M3FNUZ, std::uint64_t{0x80}},
                                   std::pair{Dtype::kFloat8E8M0FNU, std::uint64_t{0xFF}}}) {
    const std::size_t size = element_size(dtype);
    std::vector<std::byte> bytes(300 * size);
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::memcpy(bytes.data() + at, &nan, size);
      REQUIRE(counts_of(dtype, bytes) == NonFinite{1, 0, 0});
      std::memset(bytes.data() + at, 0, size);
    }
  }
  std::vector<float> values(300, 1.0F);
  const auto bytes = std::as_bytes(std::span(values));
  const detail::OddLanes odd{4, 0x7F80'0000, 0, 0x7F80'0000};
  for (const detail::StatsLoops& loops : detail::runnable_stats_loops()) {
    for (float& value : values) {
      REQUIRE_FALSE(loops.has_odd(bytes.data(), bytes.size(), odd));
      value = -INFINITY;
      REQUIRE(loops.has_odd(bytes.data(), bytes.size(), odd));
      value = -3e38F;
    }
  }
}

TEST_CASE("one walk gives the digest that hashing gives, and the counts that statistics have") {
  const std::vector<std::byte> bytes = random_bytes(kDigestChunk, 3000, 9);
  for (const Dtype dtype : kAllDtypes) {
    for (const std::size_t size :
         {0UL, 16UL, 4096UL, 16384UL, 16400UL, 20480UL, 1'000'016UL, kDigestChunk}) {
      CAPTURE(dtype_name(dtype));
      CAPTURE(size);
      const auto leaf = std::span(bytes).first(size);
      const CountedLeaf counted = count_leaf(dtype, leaf);
      CHECK(counted.digest == digest_leaf(leaf));
      TensorRecord record;
      record.stats = tensor_stats(dtype, leaf);
      CHECK(record.non_finite() == counted.counts);
    }
  }
}

}  // namespace repro_check::core
