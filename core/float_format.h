// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/dtype.h"

namespace repro_check::core {

/// What an 8-bit float code stands for. Codes of NaN and Inf have value 0: they are taken out
/// before any sum.
struct ByteFloat {
  std::array<float, 256> value{};         ///< exact
  std::array<std::int32_t, 256> order{};  ///< neighbours differ by 1; both zeros are 0
  std::array<bool, 256> nan{};
  std::array<bool, 256> finite{};
  std::uint8_t pad = 0;  ///< a code whose value is 0
};

/// @param dtype  one of the float8 kinds
const ByteFloat& byte_float(Dtype dtype) noexcept;

double half_to_double(std::uint16_t bits) noexcept;
double bfloat_to_double(std::uint16_t bits) noexcept;

/// Value of one element of a real floating dtype, NaN and Inf included, from its bits.
double decode_float(Dtype dtype, std::uint64_t bits) noexcept;

/// Position on the number line of the dtype: neighbours differ by 1, both zeros are 0. Empty for
/// NaN and Inf.
std::optional<std::int64_t> ulp_position(Dtype dtype, std::uint64_t bits) noexcept;

/// |c-b| in ULP; empty when either is NaN or Inf.
std::optional<std::uint64_t> ulp_distance(Dtype dtype,
                                          std::uint64_t baseline,
                                          std::uint64_t candidate) noexcept;

}  // namespace repro_check::core
