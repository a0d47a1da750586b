// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/promotion.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "core/tensor/dtype.h"
#include "core/tensor/float_format.h"

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

/// Where the parts of a number lie in its bits.
struct Encoding {
  std::uint64_t sign = 0;
  std::uint64_t exponent = 0;   ///< 0: there are no subnormals
  std::uint64_t zero_sign = 0;  ///< of the sign, what a zero keeps
};

Encoding encoding_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::kFloat64:
      return {1ULL << 63U, 0x7FF0'0000'0000'0000, 1ULL << 63U};
    case Dtype::kFloat32:
      return {0x8000'0000, 0x7F80'0000, 0x8000'0000};
    case Dtype::kFloat16:
      return {0x8000, 0x7C00, 0x8000};
    case Dtype::kBFloat16:
      return {0x8000, 0x7F80, 0x8000};
    case Dtype::kFloat8E4M3FN:
      return {0x80, 0x78, 0x80};
    case Dtype::kFloat8E5M2:
      return {0x80, 0x7C, 0x80};
    case Dtype::kFloat8E4M3FNUZ:
      return {0x80, 0x78, 0};
    case Dtype::kFloat8E5M2FNUZ:
      return {0x80, 0x7C, 0};
    default:
      return {};
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

void flush_subnormals(Dtype dtype, std::vector<std::byte>& bytes) noexcept {
  const Dtype part = core::part_dtype(dtype);
  const Encoding encoding = encoding_of(part);
  if (encoding.exponent == 0) return;
  const std::size_t size = core::element_size(part);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    const bool subnormal = (bits & encoding.exponent) == 0 && (bits & ~encoding.sign) != 0;
    if (!subnormal) continue;
    bits &= encoding.zero_sign;
    std::memcpy(bytes.data() + at, &bits, size);
  }
}

std::vector<std::byte> converted(core::TensorView view, Dtype dtype) {
  if (view.dtype == dtype) return {view.bytes.begin(), view.bytes.end()};
  const Dtype from = core::part_dtype(view.dtype);
  const Dtype to = core::part_dtype(dtype);
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
