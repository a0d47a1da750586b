// SPDX-License-Identifier: Apache-2.0
#include "tests/support/element_codec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"

namespace repro_check::test_support {
namespace {

using core::Dtype;
using nlohmann::json;

/// A binary format of at most 16 bits.
struct SmallFloat {
  int width = 0;
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  enum class Special { kIeee, kFiniteNan, kNegativeZeroNan, kUnsigned } special = Special::kIeee;
};

SmallFloat format_of(Dtype dtype) {
  using enum SmallFloat::Special;
  switch (dtype) {
    case Dtype::kFloat16:
    case Dtype::kComplex32:
      return {16, 5, 10, 15, kIeee};
    case Dtype::kBFloat16:
      return {16, 8, 7, 127, kIeee};
    case Dtype::kFloat8E4M3FN:
      return {8, 4, 3, 7, kFiniteNan};
    case Dtype::kFloat8E5M2:
      return {8, 5, 2, 15, kIeee};
    case Dtype::kFloat8E4M3FNUZ:
      return {8, 4, 3, 8, kNegativeZeroNan};
    case Dtype::kFloat8E5M2FNUZ:
      return {8, 5, 2, 16, kNegativeZeroNan};
    case Dtype::kFloat8E8M0FNU:
      return {8, 8, 0, 127, kUnsigned};
    default:
      refuse("no values for this dtype; give bits");
  }
}

double decode_small(const SmallFloat& format, std::uint32_t code) {
  using enum SmallFloat::Special;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (format.special == kUnsigned) {
    return code == 255U ? nan : std::ldexp(1.0, static_cast<int>(code) - format.bias);
  }
  const std::uint32_t sign = code >> static_cast<unsigned>(format.width - 1);
  const std::uint32_t magnitude = code & ((1U << static_cast<unsigned>(format.width - 1)) - 1U);
  const auto exponent = static_cast<int>(magnitude >> static_cast<unsigned>(format.mantissa_bits));
  const std::uint32_t mantissa =
      magnitude & ((1U << static_cast<unsigned>(format.mantissa_bits)) - 1U);
  const int top = (1 << format.exponent_bits) - 1;
  if (format.special == kNegativeZeroNan && sign == 1U && magnitude == 0U) return nan;
  if (format.special == kIeee && exponent == top) {
    if (mantissa != 0U) return nan;
    return sign == 1U ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::infinity();
  }
  if (format.special == kFiniteNan && magnitude == 127U) return nan;
  const double fraction =
      exponent == 0 ? mantissa : mantissa + (1U << static_cast<unsigned>(format.mantissa_bits));
  const double value =
      std::ldexp(fraction, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  return sign == 1U ? -value : value;
}

/// Nearest by trying every code: slow and plainly right.
std::uint32_t encode_small(const SmallFloat& format, double value) {
  const std::uint32_t codes = 1U << static_cast<unsigned>(format.width);
  std::uint32_t best = codes;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t code = 0; code < codes; ++code) {
    const double candidate = decode_small(format, code);
    if (std::isnan(value) ? std::isnan(candidate)
                          : candidate == value && std::signbit(candidate) == std::signbit(value)) {
      return code;
    }
    const double distance = std::abs(candidate - value);
    const bool tie = distance == best_distance && (code & 1U) == 0U;
    if (std::isfinite(distance) && (distance < best_distance || tie)) {
      best = code;
      best_distance = distance;
    }
  }
  if (best == codes) refuse("value " + std::to_string(value) + " does not exist in this dtype");
  return best;
}

double number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  const std::string text = value.is_string() ? value.get<std::string>() : std::string("?");
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "-0") return -0.0;
  refuse("not a number: " + value.dump());
}

template <typename T>
void append_raw(T value, std::vector<std::byte>& bytes) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void append_low_bytes(std::uint64_t value, std::size_t size, std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i < size; ++i) {
    bytes.push_back(static_cast<std::byte>((value >> (8U * i)) & 0xFFU));
  }
}

void append_integer(Dtype dtype, const json& value, std::vector<std::byte>& bytes) {
  std::uint64_t raw = 0;
  if (value.is_number_unsigned()) {
    raw = value.get<std::uint64_t>();
  } else if (value.is_number_integer()) {
    raw = static_cast<std::uint64_t>(value.get<std::int64_t>());
  } else if (value.is_boolean()) {
    raw = value.get<bool>() ? 1U : 0U;
  } else {
    refuse("not an integer: " + value.dump());
  }
  append_low_bytes(raw, core::element_size(dtype), bytes);
}

void append_real(Dtype dtype, double value, std::vector<std::byte>& bytes) {
  if (dtype == Dtype::kFloat64 || dtype == Dtype::kComplex128) {
    append_raw(value, bytes);
  } else if (dtype == Dtype::kFloat32 || dtype == Dtype::kComplex64) {
    append_raw(static_cast<float>(value), bytes);
  } else {
    const SmallFloat format = format_of(dtype);
    append_low_bytes(
        encode_small(format, value), static_cast<std::size_t>(format.width) / 8U, bytes);
  }
}

double decode(Dtype dtype, std::span<const std::byte> element) {
  std::uint64_t raw = 0;
  std::memcpy(&raw, element.data(), element.size());
  if (dtype == Dtype::kFloat64) return std::bit_cast<double>(raw);
  if (dtype == Dtype::kFloat32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
  }
  if (core::is_floating(dtype)) {
    return decode_small(format_of(dtype), static_cast<std::uint32_t>(raw));
  }
  const bool is_signed = (dtype >= Dtype::kInt8 && dtype <= Dtype::kInt64) ||
                         dtype == Dtype::kQInt8 || dtype == Dtype::kQInt32;
  if (!is_signed) return static_cast<double>(raw);
  const unsigned shift = 64U - 8U * static_cast<unsigned>(element.size());
  return static_cast<double>(static_cast<std::int64_t>(raw << shift) >> shift);
}

}  // namespace

void refuse(const std::string& message) {
  throw core::Error(core::ErrorKind::kUsage, "dump fixture: " + message);
}

void append_value(Dtype dtype, const json& value, std::vector<std::byte>& bytes) {
  if (core::is_complex(dtype)) {
    if (!value.is_array() || value.size() != 2) refuse("a complex value is [re, im]");
    append_real(dtype, number_of(value[0]), bytes);
    append_real(dtype, number_of(value[1]), bytes);
  } else if (core::is_floating(dtype)) {
    append_real(dtype, number_of(value), bytes);
  } else {
    append_integer(dtype, value, bytes);
  }
}

void append_bits(Dtype dtype, const json& bits, std::vector<std::byte>& bytes) {
  const std::size_t size = core::element_size(dtype);
  if (core::is_complex(dtype)) {
    if (!bits.is_array() || bits.size() != 2) refuse("complex bits are [re, im]");
    for (const json& part : bits) {
      append_low_bytes(std::stoull(part.get<std::string>(), nullptr, 16), size / 2, bytes);
    }
    return;
  }
  const auto text = bits.get<std::string>();
  std::uint64_t raw = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), raw, 16);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 2 * size) {
    refuse("not " + std::to_string(2 * size) + " hexadecimal digits: " + text);
  }
  append_low_bytes(raw, size, bytes);
}

core::TensorStats statistics(Dtype dtype, std::span<const std::byte> bytes) {
  const std::size_t size = core::element_size(dtype);
  core::TensorStats stats;
  std::vector<double> finite;
  const double smallest_normal = dtype == Dtype::kFloat16   ? std::ldexp(1.0, -14)
                                 : dtype == Dtype::kFloat64 ? std::ldexp(1.0, -1022)
                                                            : std::ldexp(1.0, -126);
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const double value = decode(dtype, bytes.subspan(at, size));
    if (std::isnan(value)) ++stats.nans;
    if (std::isinf(value)) ++(value > 0 ? stats.positive_infs : stats.negative_infs);
    if (!std::isfinite(value)) continue;
    finite.push_back(value);
    if (value == 0) ++stats.zeros;
    if (value != 0 && core::is_floating(dtype) && std::abs(value) < smallest_normal) {
      ++stats.subnormals;
    }
  }
  if (finite.empty()) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    stats.min = stats.max = stats.mean = stats.std = stats.l2 = nan;
    return stats;
  }
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  stats.min = *low;
  stats.max = *high;
  double sum = 0;
  double squares = 0;
  for (const double value : finite) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(finite.size());
  stats.mean = sum / count;
  stats.l2 = std::sqrt(squares);
  double spread = 0;
  for (const double value : finite) spread += (value - stats.mean) * (value - stats.mean);
  stats.std = std::sqrt(spread / count);
  return stats;
}

}  // namespace repro_check::test_support
