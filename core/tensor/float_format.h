// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "core/tensor/dtype.h"

namespace repro_check::core {

/// What an 8-bit float code stands for. Codes of NaN and Inf have value 0: they are taken out
/// before any sum.
struct ByteFloat {
  std::array<float, 256> value{};         ///< exact
  std::array<std::int32_t, 256> order{};  ///< neighbours differ by 1; both zeros are 0
  std::array<bool, 256> nan{};
  std::array<bool, 256> finite{};
  std::uint8_t pad = 0;  ///< a code whose value is 0
  float min_normal = 0;  ///< 0 where there is nothing smaller
  float max_finite = 0;
};

/// @param dtype  one of the float8 kinds
const ByteFloat& byte_float(Dtype dtype) noexcept;

inline float bfloat_to_float(std::uint32_t bits) noexcept {
  return std::bit_cast<float>(bits << 16U);
}

/// Exact; of NaN and Inf it makes numbers, which loops that took those out need not pay for.
inline float finite_half_to_float(std::uint32_t bits) noexcept {
  // Normal numbers are rebiased; a subnormal one is its integer times 2^-24.
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const std::uint32_t normal = (magnitude << 13U) + (std::uint32_t{112} << 23U);
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  const std::uint32_t wide = magnitude < 0x400U ? std::bit_cast<std::uint32_t>(small) : normal;
  return std::bit_cast<float>(wide | ((bits & 0x8000U) << 16U));
}

inline float half_to_float(std::uint32_t bits) noexcept {
  const auto finite = std::bit_cast<std::uint32_t>(finite_half_to_float(bits));
  // The rebiased exponent of NaN and Inf has these bits missing.
  const std::uint32_t odd = finite | 0x7F80'0000U;
  return std::bit_cast<float>((bits & 0x7FFFU) >= 0x7C00U ? odd : finite);
}

/// What both parts of a complex dtype are; any other dtype is its own part.
Dtype part_dtype(Dtype dtype) noexcept;

/// Value of one element of a real floating dtype, NaN and Inf included, from its bits.
double decode_float(Dtype dtype, std::uint64_t bits) noexcept;

/// Bits of the nearest element of a real floating dtype, ties to even. What is too large becomes
/// Inf, or NaN where the dtype has no Inf; a NaN becomes the dtype's own quiet one.
/// @param dtype  with a sign: not float8_e8m0fnu, and no float4
std::uint64_t encode_float(Dtype dtype, double value) noexcept;

/// Position on the number line of the dtype: neighbours differ by 1, both zeros are 0. Empty for
/// NaN and Inf.
std::optional<std::int64_t> ulp_position(Dtype dtype, std::uint64_t bits) noexcept;

/// |c-b| in ULP; empty when either is NaN or Inf.
std::optional<std::uint64_t> ulp_distance(Dtype dtype,
                                          std::uint64_t baseline,
                                          std::uint64_t candidate) noexcept;

}  // namespace repro_check::core
