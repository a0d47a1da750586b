// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <array>

namespace repro_check::core {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DtypeRow, 26> kRows{{
    {Dtype::kUnknown, "unknown", 0},
    {Dtype::kBool, "bool", 1},
    {Dtype::kUInt8, "uint8", 1},
    {Dtype::kUInt16, "uint16", 2},
    {Dtype::kUInt32, "uint32", 4},
    {Dtype::kUInt64, "uint64", 8},
    {Dtype::kInt8, "int8", 1},
    {Dtype::kInt16, "int16", 2},
    {Dtype::kInt32, "int32", 4},
    {Dtype::kInt64, "int64", 8},
    {Dtype::kFloat16, "float16", 2},
    {Dtype::kBFloat16, "bfloat16", 2},
    {Dtype::kFloat32, "float32", 4},
    {Dtype::kFloat64, "float64", 8},
    {Dtype::kFloat8E4M3FN, "float8_e4m3fn", 1},
    {Dtype::kFloat8E5M2, "float8_e5m2", 1},
    {Dtype::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1},
    {Dtype::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1},
    {Dtype::kFloat8E8M0FNU, "float8_e8m0fnu", 1},
    {Dtype::kFloat4E2M1FNX2, "float4_e2m1fn_x2", 1},
    {Dtype::kComplex32, "complex32", 4},
    {Dtype::kComplex64, "complex64", 8},
    {Dtype::kComplex128, "complex128", 16},
    {Dtype::kQInt8, "qint8", 1},
    {Dtype::kQUInt8, "quint8", 1},
    {Dtype::kQInt32, "qint32", 4},
}};

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

const DtypeRow& row_of(Dtype dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kRows.size() ? kRows[index] : kRows[0];
}

}  // namespace

std::string_view dtype_name(Dtype dtype) noexcept { return row_of(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "torch.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const DtypeRow& row : kRows) {
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

}  // namespace repro_check::core
