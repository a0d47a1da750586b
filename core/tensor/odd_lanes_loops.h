// SPDX-License-Identifier: Apache-2.0
// Part of stats_block_loops.h: internal linkage, once an instruction set.
#pragma once

#include "core/tensor/stats_block.h"

namespace repro_check::core::detail {
namespace {

/// The greatest of all lanes, after mask and flip, says it: two instructions a vector.
template <typename Lane>
bool any_odd(const std::byte* data, std::size_t size, const OddLanes& odd) {
  // Vectors of short lanes need an extension of AVX-512 that not every processor has.
  constexpr std::size_t kBytes =
      sizeof(Lane) < 4 && REPRO_CHECK_VECTOR_BYTES > 32 ? 32 : REPRO_CHECK_VECTOR_BYTES;
  using Vector [[gnu::vector_size(kBytes)]] = Lane;
  constexpr std::size_t kRound = 4 * kBytes;
  // What follows is on its way to the cache meanwhile, and while this is hashed.
  constexpr std::size_t kAhead = 2048;
  constexpr std::size_t kLine = 64;
  const auto mask = static_cast<Lane>(odd.mask);
  const auto flip = static_cast<Lane>(odd.flip);
  const auto take = [&](const std::byte* from, Vector& largest) {
    Vector lanes;
    __builtin_memcpy(&lanes, from, kBytes);
    lanes = (lanes & mask) ^ flip;
    largest = lanes > largest ? lanes : largest;
  };
  Vector first = Vector{} + flip;
  Vector second = first;
  Vector third = first;
  Vector fourth = first;
  for (; size >= kRound; data += kRound, size -= kRound) {
    for (std::size_t at = 0; at < kRound; at += kLine) __builtin_prefetch(data + kAhead + at);
    take(data, first);
    take(data + kBytes, second);
    take(data + 2 * kBytes, third);
    take(data + 3 * kBytes, fourth);
  }
  for (; size >= kBytes; data += kBytes, size -= kBytes) take(data, first);
  first = second > first ? second : first;
  third = fourth > third ? fourth : third;
  first = third > first ? third : first;
  Lane most = flip;
  for (std::size_t i = 0; i < kBytes / sizeof(Lane); ++i) most = first[i] > most ? first[i] : most;
  for (; size >= sizeof(Lane); data += sizeof(Lane), size -= sizeof(Lane)) {
    Lane lane;
    __builtin_memcpy(&lane, data, sizeof lane);
    lane = static_cast<Lane>((lane & mask) ^ flip);
    most = lane > most ? lane : most;
  }
  return most == static_cast<Lane>(odd.top);
}

// One for each instruction set, in a namespace of its file.
// NOLINTNEXTLINE(misc-definitions-in-headers)
bool has_odd(const std::byte* data, std::size_t size, const OddLanes& odd) {
  switch (odd.width) {
    case 1:
      return any_odd<std::int8_t>(data, size, odd);
    case 2:
      return any_odd<std::int16_t>(data, size, odd);
    case 4:
      return any_odd<std::int32_t>(data, size, odd);
    default:
      return any_odd<std::int64_t>(data, size, odd);
  }
}

}  // namespace
}  // namespace repro_check::core::detail
