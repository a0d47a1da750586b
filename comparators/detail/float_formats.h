// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/float_format.h"

namespace repro_check::comparators::detail {

/// Sign-magnitude to a number line on which neighbours differ by 1.
template <typename Order, typename Raw>
constexpr Order order_of(Raw raw, Raw magnitude_mask) noexcept {
  const auto magnitude = static_cast<Order>(raw & magnitude_mask);
  return raw > magnitude_mask ? -magnitude : magnitude;
}

// How each dtype becomes what the inner loop takes: a float (exact for 32 bits and fewer) or a
// double, and its place on the number line.

struct Float32Format {
  using Raw = std::uint32_t;
  using Value = float;
  using Order = std::int32_t;
  static constexpr Raw kMagnitude = 0x7FFF'FFFF;
  static constexpr Raw kInfinity = 0x7F80'0000;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return std::bit_cast<float>(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
};

struct BFloat16Format {
  using Raw = std::uint16_t;
  using Value = float;
  using Order = std::int32_t;
  static constexpr Raw kMagnitude = 0x7FFF;
  static constexpr Raw kInfinity = 0x7F80;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(raw) << 16U);
  }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
};

struct Float16Format {
  using Raw = std::uint16_t;
  using Value = float;
  using Order = std::int32_t;
  static constexpr Raw kMagnitude = 0x7FFF;
  static constexpr Raw kInfinity = 0x7C00;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept {
    // Normal numbers are rebiased; a subnormal one is its integer times 2^-24.
    const std::uint32_t magnitude = raw & kMagnitude;
    const std::uint32_t normal = (magnitude << 13U) + (std::uint32_t{112} << 23U);
    const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
    const std::uint32_t bits = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(small) : normal;
    return std::bit_cast<float>(bits | ((raw & 0x8000U) << 16U));
  }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
};

struct Float64Format {
  using Raw = std::uint64_t;
  using Value = double;
  using Order = std::int64_t;
  static constexpr Raw kMagnitude = 0x7FFF'FFFF'FFFF'FFFF;
  static constexpr Raw kInfinity = 0x7FF0'0000'0000'0000;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return std::bit_cast<double>(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
};

struct Float8Format {
  using Raw = std::uint8_t;
  using Value = float;
  using Order = std::int32_t;
  const core::ByteFloat* table = nullptr;

  [[nodiscard]] Raw pad() const noexcept { return table->pad; }
  [[nodiscard]] bool finite(Raw raw) const noexcept { return table->finite[raw]; }
  [[nodiscard]] bool nan(Raw raw) const noexcept { return table->nan[raw]; }
  [[nodiscard]] Value value(Raw raw) const noexcept { return table->value[raw]; }
  [[nodiscard]] Order order(Raw raw) const noexcept { return table->order[raw]; }
};

}  // namespace repro_check::comparators::detail
