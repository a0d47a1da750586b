// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/promotion.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/tensor/dtype_table.h"
#include "core/tensor/element_number.h"
#include "core/tensor/float_format.h"

namespace repro_check::comparators::detail {
namespace {

using core::Dtype;

/// The one with fewer bits in its mantissa, of equal ones the one of the greater number.
Dtype narrower(Dtype one, Dtype other) noexcept {
  const auto bits = [](Dtype dtype) {
    return core::row_of(core::part_dtype(dtype)).layout.mantissa_bits;
  };
  if (bits(one) != bits(other)) return bits(one) < bits(other) ? one : other;
  return std::max(one, other);
}

bool has_sign_and_values(Dtype dtype) noexcept {
  const core::FloatEnds ends = core::row_of(dtype).layout.ends;
  return ends != core::FloatEnds::kNone && ends != core::FloatEnds::kPowers;
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
  const core::FloatLayout& layout = core::row_of(part).layout;
  if (!has_sign_and_values(part)) return;
  const std::size_t size = core::element_size(part);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    const std::uint64_t magnitude = layout.magnitude(bits);
    if (magnitude == 0 || magnitude >> layout.mantissa_bits != 0) continue;
    // The fnuz kinds have but one zero.
    bits &= layout.ends == core::FloatEnds::kFnuz ? 0 : layout.sign();
    std::memcpy(bytes.data() + at, &bits, size);
  }
}

std::vector<std::byte> converted(core::TensorView view, Dtype dtype) {
  if (view.dtype == dtype) return {view.bytes.begin(), view.bytes.end()};
  std::vector<std::byte> out;
  const bool integers = core::visit_integer(view.dtype, [&](auto value) {
    out.resize(view.bytes.size() / sizeof value * sizeof(std::int64_t));
    for (std::size_t i = 0; i < view.bytes.size() / sizeof value; ++i) {
      std::memcpy(&value, view.bytes.data() + i * sizeof value, sizeof value);
      const auto wide = static_cast<std::int64_t>(value);
      std::memcpy(out.data() + i * sizeof wide, &wide, sizeof wide);
    }
  });
  if (integers) return out;
  return core::converted(core::part_dtype(view.dtype), view.bytes, core::part_dtype(dtype));
}

}  // namespace repro_check::comparators::detail
