// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace repro_check::core
