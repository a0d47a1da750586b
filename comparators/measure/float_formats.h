// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/tensor/float_format.h"

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
  static constexpr double kMinNormal = 0x1p-126;
  static constexpr double kMaxFinite = 0x1.fffffep127;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return std::bit_cast<float>(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
  [[nodiscard]] static double min_normal() noexcept { return kMinNormal; }
  [[nodiscard]] static double max_finite() noexcept { return kMaxFinite; }
};

struct BFloat16Format {
  using Raw = std::uint16_t;
  using Value = float;
  using Order = std::int32_t;
  static constexpr Raw kMagnitude = 0x7FFF;
  static constexpr Raw kInfinity = 0x7F80;
  static constexpr double kMinNormal = 0x1p-126;
  static constexpr double kMaxFinite = 0x1.fep127;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return core::bfloat_to_float(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
  [[nodiscard]] static double min_normal() noexcept { return kMinNormal; }
  [[nodiscard]] static double max_finite() noexcept { return kMaxFinite; }
};

struct Float16Format {
  using Raw = std::uint16_t;
  using Value = float;
  using Order = std::int32_t;
  static constexpr Raw kMagnitude = 0x7FFF;
  static constexpr Raw kInfinity = 0x7C00;
  static constexpr double kMinNormal = 0x1p-14;
  static constexpr double kMaxFinite = 65504.0;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return core::finite_half_to_float(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
  [[nodiscard]] static double min_normal() noexcept { return kMinNormal; }
  [[nodiscard]] static double max_finite() noexcept { return kMaxFinite; }
};

struct Float64Format {
  using Raw = std::uint64_t;
  using Value = double;
  using Order = std::int64_t;
  static constexpr Raw kMagnitude = 0x7FFF'FFFF'FFFF'FFFF;
  static constexpr Raw kInfinity = 0x7FF0'0000'0000'0000;
  static constexpr double kMinNormal = 0x1p-1022;
  static constexpr double kMaxFinite = 0x1.fffffffffffffp1023;

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept { return std::bit_cast<double>(raw); }
  [[nodiscard]] static Order order(Raw raw) noexcept { return order_of<Order>(raw, kMagnitude); }
  [[nodiscard]] static double min_normal() noexcept { return kMinNormal; }
  [[nodiscard]] static double max_finite() noexcept { return kMaxFinite; }
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
  [[nodiscard]] double min_normal() const noexcept { return table->min_normal; }
  [[nodiscard]] double max_finite() const noexcept { return table->max_finite; }
};

}  // namespace repro_check::comparators::detail
