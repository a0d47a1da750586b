// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <array>

#include "core/tensor/dtype_table.h"

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

}  // namespace repro_check::core
