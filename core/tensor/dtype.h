// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace repro_check::core {

/// Element types, named as `torch` names them. The numbers are stored in dumps: append only.
enum class Dtype : std::uint8_t {
  kUnknown = 0,
  kBool = 1,
  kUInt8 = 2,
  kUInt16 = 3,
  kUInt32 = 4,
  kUInt64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kFloat16 = 10,
  kBFloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kFloat8E4M3FN = 14,
  kFloat8E5M2 = 15,
  kFloat8E4M3FNUZ = 16,
  kFloat8E5M2FNUZ = 17,
  kFloat8E8M0FNU = 18,
  kFloat4E2M1FNX2 = 19,  ///< two values a byte; shape counts bytes
  kComplex32 = 20,
  kComplex64 = 21,
  kComplex128 = 22,
  kQInt8 = 23,
  kQUInt8 = 24,
  kQInt32 = 25,
};

/// "float32", "bfloat16", "float8_e4m3fn"; "unknown" for kUnknown.
std::string_view dtype_name(Dtype dtype) noexcept;

/// The inverse of dtype_name; also takes "half", "float", "double", "long", "int" and a leading
/// "torch.". Empty for anything else.
std::optional<Dtype> parse_dtype(std::string_view name) noexcept;

/// Bytes an element takes; 0 for kUnknown.
std::size_t element_size(Dtype dtype) noexcept;

/// Real floating point of any width, float8 and float4 included.
bool is_floating(Dtype dtype) noexcept;
bool is_complex(Dtype dtype) noexcept;
/// Signed and unsigned integers; not bool, not quantised.
bool is_integral(Dtype dtype) noexcept;
bool is_quantised(Dtype dtype) noexcept;

// What is known of every element type, once.

/// What the codes at the end of a floating format mean.
enum class FloatEnds : std::uint8_t {
  kNone,    ///< no floating format, or one of several numbers an element
  kIeee,    ///< an exponent of all ones is Inf, and NaN with a mantissa
  kOneNan,  ///< all ones is NaN; no Inf
  kFnuz,    ///< the code of -0 is NaN; no Inf
  kPowers,  ///< powers of two without sign and zero; all ones is NaN
};

/// Sign, exponent and mantissa, from the highest bit on.
struct FloatLayout {
  unsigned exponent_bits = 0;
  unsigned mantissa_bits = 0;
  FloatEnds ends = FloatEnds::kNone;

  /// The sign's bit; of kPowers one that no code has.
  [[nodiscard]] constexpr std::uint64_t sign() const noexcept {
    return std::uint64_t{1} << (exponent_bits + mantissa_bits);
  }
  [[nodiscard]] constexpr std::uint64_t magnitude(std::uint64_t bits) const noexcept {
    return bits & (sign() - 1);
  }
  [[nodiscard]] constexpr int bias() const noexcept {
    return (1 << (exponent_bits - 1)) - (ends == FloatEnds::kFnuz ? 0 : 1);
  }
  [[nodiscard]] constexpr bool has_infinity() const noexcept { return ends == FloatEnds::kIeee; }
  /// Least magnitude that is no finite number.
  [[nodiscard]] constexpr std::uint64_t special() const noexcept {
    if (ends == FloatEnds::kFnuz) return sign();
    if (ends == FloatEnds::kIeee) return sign() - (std::uint64_t{1} << mantissa_bits);
    return sign() - 1;
  }
  [[nodiscard]] constexpr bool is_finite(std::uint64_t bits) const noexcept {
    return ends == FloatEnds::kFnuz ? bits != sign() : magnitude(bits) < special();
  }
  [[nodiscard]] constexpr bool is_nan(std::uint64_t bits) const noexcept {
    return !is_finite(bits) && !(has_infinity() && magnitude(bits) == special());
  }

  /// Value of a finite code.
  [[nodiscard]] double value(std::uint64_t bits) const noexcept;
  /// 0 where there are no subnormal numbers.
  [[nodiscard]] double min_normal() const noexcept;
  [[nodiscard]] double max_finite() const noexcept { return value(special() - 1); }
};

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;         ///< of an element, in bytes
  std::string_view torch;   ///< the enumerator of c10::ScalarType
  std::string_view numpy;   ///< `<f4`; empty where NumPy has no such dtype
  FloatLayout layout = {};  ///< of a real floating dtype with one number an element
};

/// In the order of their numbers.
inline constexpr std::array<DtypeRow, 26> kDtypes{{
    {Dtype::kUnknown, "unknown", 0, "Undefined", ""},
    {Dtype::kBool, "bool", 1, "Bool", "|b1"},
    {Dtype::kUInt8, "uint8", 1, "Byte", "|u1"},
    {Dtype::kUInt16, "uint16", 2, "UInt16", "<u2"},
    {Dtype::kUInt32, "uint32", 4, "UInt32", "<u4"},
    {Dtype::kUInt64, "uint64", 8, "UInt64", "<u8"},
    {Dtype::kInt8, "int8", 1, "Char", "|i1"},
    {Dtype::kInt16, "int16", 2, "Short", "<i2"},
    {Dtype::kInt32, "int32", 4, "Int", "<i4"},
    {Dtype::kInt64, "int64", 8, "Long", "<i8"},
    {Dtype::kFloat16, "float16", 2, "Half", "<f2", {5, 10, FloatEnds::kIeee}},
    {Dtype::kBFloat16, "bfloat16", 2, "BFloat16", "", {8, 7, FloatEnds::kIeee}},
    {Dtype::kFloat32, "float32", 4, "Float", "<f4", {8, 23, FloatEnds::kIeee}},
    {Dtype::kFloat64, "float64", 8, "Double", "<f8", {11, 52, FloatEnds::kIeee}},
    {Dtype::kFloat8E4M3FN, "float8_e4m3fn", 1, "Float8_e4m3fn", "", {4, 3, FloatEnds::kOneNan}},
    {Dtype::kFloat8E5M2, "float8_e5m2", 1, "Float8_e5m2", "", {5, 2, FloatEnds::kIeee}},
    {Dtype::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1, "Float8_e4m3fnuz", "", {4, 3, FloatEnds::kFnuz}},
    {Dtype::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1, "Float8_e5m2fnuz", "", {5, 2, FloatEnds::kFnuz}},
    {Dtype::kFloat8E8M0FNU, "float8_e8m0fnu", 1, "Float8_e8m0fnu", "", {8, 0, FloatEnds::kPowers}},
    {Dtype::kFloat4E2M1FNX2, "float4_e2m1fn_x2", 1, "Float4_e2m1fn_x2", ""},
    {Dtype::kComplex32, "complex32", 4, "ComplexHalf", ""},
    {Dtype::kComplex64, "complex64", 8, "ComplexFloat", "<c8"},
    {Dtype::kComplex128, "complex128", 16, "ComplexDouble", "<c16"},
    {Dtype::kQInt8, "qint8", 1, "QInt8", ""},
    {Dtype::kQUInt8, "quint8", 1, "QUInt8", ""},
    {Dtype::kQInt32, "qint32", 4, "QInt32", ""},
}};

constexpr const DtypeRow& row_of(Dtype dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return kDtypes[index < kDtypes.size() ? index : 0];
}

/// Calls `visit` with a number of the type that elements of an integral, bool or quantised dtype
/// are held in. False for any other dtype.
template <typename Visit>
bool visit_integer(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUInt8:
    case Dtype::kQUInt8:
      return visit(std::uint8_t{}), true;
    case Dtype::kInt8:
    case Dtype::kQInt8:
      return visit(std::int8_t{}), true;
    case Dtype::kUInt16:
      return visit(std::uint16_t{}), true;
    case Dtype::kInt16:
      return visit(std::int16_t{}), true;
    case Dtype::kUInt32:
      return visit(std::uint32_t{}), true;
    case Dtype::kInt32:
    case Dtype::kQInt32:
      return visit(std::int32_t{}), true;
    case Dtype::kUInt64:
      return visit(std::uint64_t{}), true;
    case Dtype::kInt64:
      return visit(std::int64_t{}), true;
    default:
      return false;
  }
}

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
