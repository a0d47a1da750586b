// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/promotion.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"
#include "core/float_format.h"

namespace repro_check::comparators::detail {
namespace {

using core::Dtype;

/// From wide to narrow: of two dtypes the later one has fewer bits in its mantissa.
constexpr std::array kByMantissa{Dtype::kFloat64,
                                 Dtype::kComplex128,
                                 Dtype::kFloat32,
                                 Dtype::kComplex64,
                                 Dtype::kFloat16,
                                 Dtype::kComplex32,
                                 Dtype::kBFloat16,
                                 Dtype::kFloat8E4M3FN,
                                 Dtype::kFloat8E4M3FNUZ,
                                 Dtype::kFloat8E5M2,
                                 Dtype::kFloat8E5M2FNUZ};

Dtype narrower(Dtype one, Dtype other) noexcept {
  Dtype last = one;
  for (const Dtype dtype : kByMantissa) {
    if (dtype == one || dtype == other) last = dtype;
  }
  return last;
}

bool has_sign_and_values(Dtype dtype) noexcept {
  return core::is_floating(dtype) && dtype != Dtype::kFloat4E2M1FNX2 &&
         dtype != Dtype::kFloat8E8M0FNU;
}

Dtype part_of(Dtype dtype) noexcept {
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

std::int64_t integer_of(Dtype dtype, std::uint64_t bits) noexcept {
  const bool is_signed = dtype >= Dtype::kInt8 && dtype <= Dtype::kInt64;
  const auto shift = static_cast<unsigned>(64U - 8U * core::element_size(dtype));
  return is_signed ? static_cast<std::int64_t>(bits << shift) >> shift
                   : static_cast<std::int64_t>(bits);
}

}  // namespace

std::optional<Dtype> common_dtype(Dtype one, Dtype other, configs::PolicyKind policy) noexcept {
  const bool by_ulp = policy == configs::PolicyKind::kUlp;
  if (has_sign_and_values(one) && has_sign_and_values(other)) {
    return by_ulp ? narrower(one, other) : Dtype::kFloat64;
  }
  if (core::is_complex(one) && core::is_complex(other)) {
    return by_ulp ? narrower(one, other) : Dtype::kComplex128;
  }
  const bool integers = core::is_integral(one) && core::is_integral(other);
  if (!integers || one == Dtype::kUInt64 || other == Dtype::kUInt64) return std::nullopt;
  return Dtype::kInt64;
}

std::vector<std::byte> converted(core::TensorView view, Dtype dtype) {
  if (view.dtype == dtype) return {view.bytes.begin(), view.bytes.end()};
  const Dtype from = part_of(view.dtype);
  const Dtype to = part_of(dtype);
  const std::size_t from_size = core::element_size(from);
  const std::size_t to_size = core::element_size(to);
  const std::size_t count = view.bytes.size() / from_size;
  std::vector<std::byte> out(count * to_size);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, view.bytes.data() + i * from_size, from_size);
    bits = core::is_integral(from) ? static_cast<std::uint64_t>(integer_of(from, bits))
                                   : core::encode_float(to, core::decode_float(from, bits));
    std::memcpy(out.data() + i * to_size, &bits, to_size);
  }
  return out;
}

}  // namespace repro_check::comparators::detail
