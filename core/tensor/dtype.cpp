// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace repro_check::core {
namespace {

struct Alias {
  std::string_view name;
  Dtype dtype;
};

constexpr std::array<Alias, 8> kAliases{{
    {"half", Dtype::kFloat16},
    {"float", Dtype::kFloat32},
    {"double", Dtype::kFloat64},
    {"short", Dtype::kInt16},
    {"int", Dtype::kInt32},
    {"long", Dtype::kInt64},
    {"cfloat", Dtype::kComplex64},
    {"cdouble", Dtype::kComplex128},
}};

}  // namespace

std::string_view dtype_name(Dtype dtype) noexcept { return row_of(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "torch.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype != Dtype::kUnknown && row.name == name) return row.dtype;
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return alias.dtype;
  }
  return std::nullopt;
}

std::size_t element_size(Dtype dtype) noexcept { return row_of(dtype).size; }

bool is_floating(Dtype dtype) noexcept {
  return dtype >= Dtype::kFloat16 && dtype <= Dtype::kFloat4E2M1FNX2;
}

bool is_complex(Dtype dtype) noexcept {
  return dtype >= Dtype::kComplex32 && dtype <= Dtype::kComplex128;
}

bool is_integral(Dtype dtype) noexcept { return dtype >= Dtype::kUInt8 && dtype <= Dtype::kInt64; }

bool is_quantised(Dtype dtype) noexcept {
  return dtype >= Dtype::kQInt8 && dtype <= Dtype::kQInt32;
}

namespace {

ByteFloat byte_table(const FloatLayout& layout) {
  ByteFloat table;
  for (std::size_t code = 0; code < table.value.size(); ++code) {
    table.nan[code] = layout.is_nan(code);
    table.finite[code] = layout.is_finite(code);
    if (!table.finite[code]) continue;
    const auto magnitude = static_cast<std::int32_t>(layout.magnitude(code));
    table.value[code] = static_cast<float>(layout.value(code));
    table.order[code] = (code & layout.sign()) != 0 ? -magnitude : magnitude;
  }
  // Powers of two have no zero: the place of a NaN stands in for it.
  if (layout.ends == FloatEnds::kPowers) table.pad = static_cast<std::uint8_t>(layout.special());
  table.min_normal = static_cast<float>(layout.min_normal());
  table.max_finite = static_cast<float>(layout.max_finite());
  return table;
}

/// LibTorch's own NaN.
std::uint64_t nan_code(Dtype dtype) noexcept {
  const FloatLayout& layout = row_of(dtype).layout;
  if (layout.ends == FloatEnds::kFnuz) return layout.sign();
  if (element_size(dtype) == 1) return layout.sign() - 1;
  return layout.special() | std::uint64_t{1} << (layout.mantissa_bits - 1);
}

}  // namespace

double FloatLayout::value(std::uint64_t bits) const noexcept {
  const std::uint64_t number = magnitude(bits);
  const std::uint64_t one = std::uint64_t{1} << mantissa_bits;
  const auto exponent = static_cast<int>(number / one);
  if (ends == FloatEnds::kPowers) return std::ldexp(1.0, exponent - bias());
  const std::uint64_t significand = number % one + (exponent == 0 ? 0 : one);
  const double value = std::ldexp(static_cast<double>(significand),
                                  std::max(exponent, 1) - bias() - static_cast<int>(mantissa_bits));
  return (bits & sign()) != 0 ? -value : value;
}

double FloatLayout::min_normal() const noexcept {
  return ends == FloatEnds::kPowers ? 0 : std::ldexp(1.0, 1 - bias());
}

const ByteFloat& byte_float(Dtype dtype) noexcept {
  static const std::array<ByteFloat, 5> tables{byte_table(row_of(Dtype::kFloat8E4M3FN).layout),
                                               byte_table(row_of(Dtype::kFloat8E5M2).layout),
                                               byte_table(row_of(Dtype::kFloat8E4M3FNUZ).layout),
                                               byte_table(row_of(Dtype::kFloat8E5M2FNUZ).layout),
                                               byte_table(row_of(Dtype::kFloat8E8M0FNU).layout)};
  const auto index =
      static_cast<std::size_t>(dtype) - static_cast<std::size_t>(Dtype::kFloat8E4M3FN);
  return tables[std::min(index, tables.size() - 1)];
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
  const FloatLayout& layout = row_of(dtype).layout;
  if (std::isnan(value)) return nan_code(dtype);
  const std::uint64_t sign = std::signbit(value) ? layout.sign() : 0;
  const std::uint64_t largest = layout.special() - 1;
  const double magnitude = std::abs(value);
  // Magnitudes grow with their codes: the last that is not above the value.
  std::uint64_t low = 0;
  std::uint64_t high = largest;
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
      low < largest ? decode_float(dtype, low + 1) : 2 * below - decode_float(dtype, low - 1);
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  if (to_above < to_below || (to_above == to_below && low % 2 == 1)) ++low;
  if (low > largest) return layout.has_infinity() ? layout.special() | sign : nan_code(dtype);
  // The fnuz kinds have no -0: that code is their NaN.
  return low == 0 && layout.ends == FloatEnds::kFnuz ? 0 : low | sign;
}

std::optional<std::int64_t> ulp_position(Dtype dtype, std::uint64_t bits) noexcept {
  const FloatLayout& layout = row_of(dtype).layout;
  if (!layout.is_finite(bits)) return std::nullopt;
  const auto position = static_cast<std::int64_t>(layout.magnitude(bits));
  return (bits & layout.sign()) != 0U ? -position : position;
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
