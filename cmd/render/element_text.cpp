// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

#include "cmd/render/text.h"
#include "core/tensor/float_format.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;

// A format narrower than float32. Each differs in what it does with the topmost codes.
struct SmallFloat {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  enum class Special { kIeee, kNanOnly, kNegativeZeroNan } special;
};

std::optional<SmallFloat> small_float(Dtype dtype) {
  using Special = SmallFloat::Special;
  switch (dtype) {
    case Dtype::kFloat16:
      return SmallFloat{5, 10, 15, Special::kIeee};
    case Dtype::kBFloat16:
      return SmallFloat{8, 7, 127, Special::kIeee};
    case Dtype::kFloat8E5M2:
      return SmallFloat{5, 2, 15, Special::kIeee};
    case Dtype::kFloat8E4M3FN:
      return SmallFloat{4, 3, 7, Special::kNanOnly};
    case Dtype::kFloat8E4M3FNUZ:
      return SmallFloat{4, 3, 8, Special::kNegativeZeroNan};
    case Dtype::kFloat8E5M2FNUZ:
      return SmallFloat{5, 2, 16, Special::kNegativeZeroNan};
    default:
      return std::nullopt;
  }
}

float decode(const SmallFloat& format, std::uint32_t code) {
  const std::uint32_t mantissa_mask = (1U << format.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1U << format.exponent_bits) - 1;
  const std::uint32_t mantissa = code & mantissa_mask;
  const std::uint32_t exponent = (code >> format.mantissa_bits) & exponent_mask;
  const std::uint32_t sign = code >> (format.mantissa_bits + format.exponent_bits);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float unit = sign != 0 ? -1.0F : 1.0F;
  using Special = SmallFloat::Special;
  if (format.special == Special::kIeee && exponent == exponent_mask) {
    return mantissa == 0 ? unit * std::numeric_limits<float>::infinity() : nan;
  }
  if (format.special == Special::kNanOnly && exponent == exponent_mask &&
      mantissa == mantissa_mask) {
    return nan;
  }
  if (format.special == Special::kNegativeZeroNan && sign != 0 && exponent == 0 && mantissa == 0) {
    return nan;
  }
  const int scale = static_cast<int>(format.mantissa_bits) + format.bias;
  if (exponent == 0) {
    return unit * std::ldexp(static_cast<float>(mantissa), 1 - scale);
  }
  const std::uint32_t significand = mantissa | (1U << format.mantissa_bits);
  return unit * std::ldexp(static_cast<float>(significand), static_cast<int>(exponent) - scale);
}

template <typename T>
T read(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
std::string number(T value) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

template <typename T>
std::string integer(std::span<const std::byte> bytes) {
  return fmt::format("{}", +read<T>(bytes));
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string out = "0x";
  for (std::size_t i = bytes.size(); i > 0; --i) {
    fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(bytes[i - 1]));
  }
  return out;
}

std::string complex_text(Dtype dtype, std::span<const std::byte> bytes) {
  const std::size_t half = bytes.size() / 2;
  const std::string real = element_text(core::part_dtype(dtype), bytes.first(half));
  const std::string imaginary = element_text(core::part_dtype(dtype), bytes.subspan(half));
  return real + (imaginary.starts_with('-') ? "" : "+") + imaginary + "j";
}

std::string integer_text(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kQUInt8:
      return integer<std::uint8_t>(bytes);
    case Dtype::kUInt16:
      return integer<std::uint16_t>(bytes);
    case Dtype::kUInt32:
      return integer<std::uint32_t>(bytes);
    case Dtype::kUInt64:
      return integer<std::uint64_t>(bytes);
    case Dtype::kInt8:
    case Dtype::kQInt8:
      return integer<std::int8_t>(bytes);
    case Dtype::kInt16:
      return integer<std::int16_t>(bytes);
    case Dtype::kInt32:
    case Dtype::kQInt32:
      return integer<std::int32_t>(bytes);
    case Dtype::kInt64:
      return integer<std::int64_t>(bytes);
    default:
      return hexadecimal(bytes);
  }
}

std::string bool_text(std::span<const std::byte> bytes) {
  const auto value = std::to_integer<unsigned>(bytes.front());
  // Any other byte is a bool that torch reads as true and that is not bit-equal to true.
  return value == 0 ? "False" : (value == 1 ? "True" : fmt::format("True (byte {})", value));
}

}  // namespace

std::string element_text(core::Dtype dtype, std::span<const std::byte> element) {
  if (element.empty() || element.size() != core::element_size(dtype)) {
    return hexadecimal(element);
  }
  if (core::is_complex(dtype)) {
    return complex_text(dtype, element);
  }
  if (const auto format = small_float(dtype)) {
    const std::uint32_t code =
        element.size() == 2 ? read<std::uint16_t>(element) : read<std::uint8_t>(element);
    return number(decode(*format, code));
  }
  switch (dtype) {
    case Dtype::kBool:
      return bool_text(element);
    case Dtype::kFloat32:
      return number(read<float>(element));
    case Dtype::kFloat64:
      return number(read<double>(element));
    case Dtype::kFloat8E8M0FNU: {
      const auto code = read<std::uint8_t>(element);
      return code == 0xFF ? "nan" : number(std::ldexp(1.0F, code - 127));
    }
    default:
      return integer_text(dtype, element);
  }
}

}  // namespace repro_check::cmd
