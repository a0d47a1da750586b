// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/float_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace repro_check::core {
namespace {

/// Layout of a float8 with a sign bit.
struct ByteLayout {
  int mantissa_bits = 0;
  int bias = 0;
  bool fnuz = false;      ///< no -0, no infinity, 0x80 is the only NaN
  int first_inf = 0x100;  ///< least magnitude code that is Inf
  int first_nan = 0x100;  ///< least magnitude code that is NaN
};

ByteFloat make_signed(const ByteLayout& layout) {
  ByteFloat table;
  for (int code = 0; code < 256; ++code) {
    const auto index = static_cast<std::size_t>(code);
    const int magnitude = code & 0x7F;
    const bool negative = code >= 0x80;
    table.nan[index] = layout.fnuz ? code == 0x80 : magnitude >= layout.first_nan;
    table.finite[index] = !table.nan[index] && (layout.fnuz || magnitude < layout.first_inf);
    if (!table.finite[index]) continue;
    const int exponent = magnitude >> layout.mantissa_bits;
    const int mantissa = magnitude & ((1 << layout.mantissa_bits) - 1);
    const int significand = exponent == 0 ? mantissa : mantissa + (1 << layout.mantissa_bits);
    const float value = std::ldexp(static_cast<float>(significand),
                                   std::max(exponent, 1) - layout.bias - layout.mantissa_bits);
    table.value[index] = negative ? -value : value;
    table.order[index] = negative ? -magnitude : magnitude;
    table.max_finite = std::max(table.max_finite, value);
  }
  table.min_normal = std::ldexp(1.0F, 1 - layout.bias);
  return table;
}

/// Unsigned powers of two, without a zero.
ByteFloat make_e8m0() {
  constexpr int kBias = 127;
  constexpr int kNanCode = 0xFF;
  ByteFloat table;
  for (int code = 0; code < kNanCode; ++code) {
    const auto index = static_cast<std::size_t>(code);
    table.value[index] = std::ldexp(1.0F, code - kBias);
    table.order[index] = code;
    table.finite[index] = true;
    table.max_finite = table.value[index];
  }
  table.nan[kNanCode] = true;
  table.pad = kNanCode;
  return table;
}

/// Where the sign bit of a wider dtype is, and the first magnitude that is not finite.
struct WideLayout {
  unsigned width = 0;
  std::uint64_t infinity = 0;
};

WideLayout wide_layout(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::kFloat16:
      return {16, 0x7C00};
    case Dtype::kBFloat16:
      return {16, 0x7F80};
    case Dtype::kFloat32:
      return {32, 0x7F80'0000};
    default:
      return {64, 0x7FF0'0000'0000'0000};
  }
}

/// Codes of a float of 16 bits or fewer.
struct NarrowCodes {
  std::uint64_t largest = 0;  ///< magnitude
  std::uint64_t too_large = 0;
  std::uint64_t nan = 0;
  std::uint64_t sign = 0x80;
  bool signed_inf = false;
};

NarrowCodes narrow_codes(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::kFloat16:
      return {0x7BFF, 0x7C00, 0x7E00, 0x8000, true};
    case Dtype::kBFloat16:
      return {0x7F7F, 0x7F80, 0x7FC0, 0x8000, true};
    case Dtype::kFloat8E4M3FN:
      return {0x7E, 0x7F, 0x7F};
    case Dtype::kFloat8E5M2:
      return {0x7B, 0x7C, 0x7F, 0x80, true};
    default:
      return {0x7F, 0x80, 0x80};
  }
}

bool is_byte_float(Dtype dtype) noexcept {
  return dtype >= Dtype::kFloat8E4M3FN && dtype <= Dtype::kFloat8E8M0FNU;
}

}  // namespace

const ByteFloat& byte_float(Dtype dtype) noexcept {
  static const ByteFloat e4m3fn = make_signed({3, 7, false, 0x100, 0x7F});
  static const ByteFloat e5m2 = make_signed({2, 15, false, 0x7C, 0x7D});
  static const ByteFloat e4m3fnuz = make_signed({3, 8, true});
  static const ByteFloat e5m2fnuz = make_signed({2, 16, true});
  static const ByteFloat e8m0 = make_e8m0();
  switch (dtype) {
    case Dtype::kFloat8E4M3FN:
      return e4m3fn;
    case Dtype::kFloat8E5M2:
      return e5m2;
    case Dtype::kFloat8E4M3FNUZ:
      return e4m3fnuz;
    case Dtype::kFloat8E5M2FNUZ:
      return e5m2fnuz;
    default:
      return e8m0;
  }
}

Dtype part_dtype(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::kComplex32:
      return Dtype::kFloat16;
    case Dtype::kComplex64:
      return Dtype::kFloat32;
    case Dtype::kComplex128:
      return Dtype::kFloat64;
    default:
      return dtype;
  }
}

double decode_float(Dtype dtype, std::uint64_t bits) noexcept {
  if (dtype == Dtype::kFloat64) return std::bit_cast<double>(bits);
  if (dtype == Dtype::kFloat32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  if (dtype == Dtype::kFloat16) {
    return static_cast<double>(half_to_float(static_cast<std::uint16_t>(bits)));
  }
  if (dtype == Dtype::kBFloat16) {
    return static_cast<double>(bfloat_to_float(static_cast<std::uint16_t>(bits)));
  }
  const ByteFloat& table = byte_float(dtype);
  const auto code = static_cast<std::size_t>(bits & 0xFFU);
  if (table.nan[code]) return std::numeric_limits<double>::quiet_NaN();
  if (table.finite[code]) return static_cast<double>(table.value[code]);
  const double infinity = std::numeric_limits<double>::infinity();
  return code >= 0x80U ? -infinity : infinity;
}

std::uint64_t encode_float(Dtype dtype, double value) noexcept {
  if (dtype == Dtype::kFloat64) return std::bit_cast<std::uint64_t>(value);
  if (dtype == Dtype::kFloat32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const NarrowCodes codes = narrow_codes(dtype);
  if (std::isnan(value)) return codes.nan;
  const double magnitude = std::abs(value);
  // Magnitudes grow with their codes: the last that is not above the value.
  std::uint64_t low = 0;
  std::uint64_t high = codes.largest;
  while (low < high) {
    const std::uint64_t middle = high - (high - low) / 2;
    if (decode_float(dtype, middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const double below = decode_float(dtype, low);
  const double above =
      low < codes.largest ? decode_float(dtype, low + 1) : 2 * below - decode_float(dtype, low - 1);
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  if (to_above < to_below || (to_above == to_below && low % 2 == 1)) ++low;
  if (low > codes.largest)
    return codes.too_large | (codes.signed_inf && value < 0 ? codes.sign : 0);
  // The fnuz kinds have no -0: that code is their NaN.
  const bool negative = std::signbit(value) && (low != 0 || codes.nan != codes.sign);
  return low | (negative ? codes.sign : 0);
}

std::optional<std::int64_t> ulp_position(Dtype dtype, std::uint64_t bits) noexcept {
  if (is_byte_float(dtype)) {
    const ByteFloat& table = byte_float(dtype);
    const auto code = static_cast<std::size_t>(bits & 0xFFU);
    if (!table.finite[code]) return std::nullopt;
    return table.order[code];
  }
  const WideLayout layout = wide_layout(dtype);
  const std::uint64_t sign = std::uint64_t{1} << (layout.width - 1U);
  const std::uint64_t magnitude = bits & (sign - 1U);
  if (magnitude >= layout.infinity) return std::nullopt;
  const auto position = static_cast<std::int64_t>(magnitude);
  return (bits & sign) != 0U ? -position : position;
}

std::optional<std::uint64_t> ulp_distance(Dtype dtype,
                                          std::uint64_t baseline,
                                          std::uint64_t candidate) noexcept {
  const auto from = ulp_position(dtype, baseline);
  const auto to = ulp_position(dtype, candidate);
  if (!from || !to) return std::nullopt;
  const auto low = static_cast<std::uint64_t>(std::min(*from, *to));
  const auto high = static_cast<std::uint64_t>(std::max(*from, *to));
  return high - low;
}

}  // namespace repro_check::core
