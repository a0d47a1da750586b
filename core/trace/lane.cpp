// SPDX-License-Identifier: Apache-2.0
#include "core/trace/lane.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "core/digest/digest.h"

namespace repro_check::core {
namespace {

constexpr std::uint32_t kUnordered = std::uint32_t{1} << 31U;
constexpr std::uint32_t kDigested = std::uint32_t{1} << 30U;

/// Where a level's ordinal stands, one more than it is; 0 = no such level.
struct Level {
  unsigned shift;
  std::uint32_t most;
};
constexpr std::array<Level, 3> kLevels{{{0, 0x3FFF}, {14, 0xFF}, {22, 0xFF}}};

std::uint32_t at(std::uint32_t lane, const Level& level) noexcept {
  return (lane >> level.shift) & level.most;
}

}  // namespace

std::uint32_t forked_lane(std::uint32_t creator, std::uint32_t ordinal) noexcept {
  if ((creator & (kUnordered | kDigested)) == 0) {
    for (const Level& level : kLevels) {
      if (at(creator, level) != 0) continue;
      if (ordinal >= level.most) break;
      return creator | ((ordinal + 1) << level.shift);
    }
  }
  const std::array<std::uint32_t, 2> path{creator, ordinal};
  const Digest digest = digest_leaf(std::as_bytes(std::span(path)));
  return kDigested | (static_cast<std::uint32_t>(digest.low) & (kDigested - 1));
}

std::uint32_t pool_lane(std::uint32_t creator) noexcept { return creator | kUnordered; }

bool is_unordered(std::uint32_t lane) noexcept { return (lane & kUnordered) != 0; }

std::string lane_text(std::uint32_t lane) {
  if (is_unordered(lane)) return "pool of " + lane_text(lane & ~kUnordered);
  if ((lane & kDigested) != 0) return fmt::format("fork {:08x}", lane & ~kDigested);
  std::string text = "main";
  for (const Level& level : kLevels) {
    if (at(lane, level) == 0) break;
    text += fmt::format(".{}", at(lane, level) - 1);
  }
  return text;
}

}  // namespace repro_check::core
