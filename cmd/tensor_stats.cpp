// SPDX-License-Identifier: Apache-2.0
#include "cmd/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What the codes at the top of a small float's range stand for.
enum class Specials {
  kIeee,             ///< the last binade is Inf and NaN
  kOneNan,           ///< the last binade holds numbers, its last code is NaN; no Inf
  kNegativeZeroNan,  ///< the code of -0 is the only NaN; no Inf
  kNone,
};

struct SmallFloat {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  int bias;
  Specials specials = Specials::kIeee;
};

double decode(const SmallFloat& format, unsigned bits) {
  const unsigned last_mantissa = (1U << format.mantissa_bits) - 1U;
  const unsigned last_exponent = (1U << format.exponent_bits) - 1U;
  const unsigned mantissa = bits & last_mantissa;
  const unsigned exponent = (bits >> format.mantissa_bits) & last_exponent;
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1U) != 0;
  if (format.specials == Specials::kNegativeZeroNan && negative && exponent + mantissa == 0) {
    return kNan;
  }
  if (format.specials == Specials::kOneNan && exponent == last_exponent &&
      mantissa == last_mantissa) {
    return kNan;
  }
  if (format.specials == Specials::kIeee && exponent == last_exponent) {
    if (mantissa != 0) return kNan;
    return negative ? -kInfinity : kInfinity;
  }
  const unsigned hidden = exponent == 0 ? 0U : last_mantissa + 1U;
  const int scale = static_cast<int>(std::max(exponent, 1U)) - format.bias -
                    static_cast<int>(format.mantissa_bits);
  const double magnitude = std::ldexp(static_cast<double>(hidden + mantissa), scale);
  return negative ? -magnitude : magnitude;
}

/// Welford's running mean and variance, and all the counts.
class Accumulator {
 public:
  explicit Accumulator(double smallest_normal) : smallest_normal_(smallest_normal) {}

  void add(double value) {
    if (std::isnan(value)) {
      ++stats_.nans;
      return;
    }
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    if (std::isinf(value)) {
      ++(value > 0 ? stats_.positive_infs : stats_.negative_infs);
      return;
    }
    if (value == 0) ++stats_.zeros;
    if (value != 0 && std::abs(value) < smallest_normal_) ++stats_.subnormals;
    ++finite_;
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(finite_);
    deviation_ += delta * (value - mean_);
    squares_ += value * value;
  }

  [[nodiscard]] core::TensorStats finish() const {
    core::TensorStats stats = stats_;
    const bool ordered = low_ <= high_;
    stats.min = ordered ? low_ : kNan;
    stats.max = ordered ? high_ : kNan;
    stats.mean = finite_ > 0 ? mean_ : kNan;
    stats.std = finite_ > 0 ? std::sqrt(deviation_ / static_cast<double>(finite_)) : kNan;
    stats.l2 = finite_ > 0 ? std::sqrt(squares_) : kNan;
    return stats;
  }

 private:
  double smallest_normal_;
  double low_ = kInfinity;
  double high_ = -kInfinity;
  double mean_ = 0;
  double deviation_ = 0;
  double squares_ = 0;
  std::uint64_t finite_ = 0;
  core::TensorStats stats_;
};

template <typename Number, typename Each>
void for_each(std::span<const std::byte> bytes, Each each) {
  for (std::size_t i = 0; i + sizeof(Number) <= bytes.size(); i += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + i, sizeof number);
    each(number);
  }
}

template <typename Number>
core::TensorStats of_numbers(std::span<const std::byte> bytes) {
  const bool floating = std::is_floating_point_v<Number>;
  Accumulator total(floating ? static_cast<double>(std::numeric_limits<Number>::min()) : 0);
  for_each<Number>(bytes, [&](Number number) { total.add(static_cast<double>(number)); });
  return total.finish();
}

template <typename Bits>
core::TensorStats of_small(const SmallFloat& format, std::span<const std::byte> bytes) {
  Accumulator total(std::ldexp(1.0, 1 - format.bias));
  for_each<Bits>(bytes, [&](Bits bits) { total.add(decode(format, bits)); });
  return total.finish();
}

/// 2^(code - 127) without sign or zero; the last code is NaN.
core::TensorStats of_exponents(std::span<const std::byte> bytes) {
  Accumulator total(0);
  for_each<std::uint8_t>(bytes, [&](std::uint8_t code) {
    total.add(code == 0xFFU ? kNan : std::ldexp(1.0, code - 127));
  });
  return total.finish();
}

core::TensorStats of_pairs(std::span<const std::byte> bytes) {
  constexpr SmallFloat kFormat{2, 1, 1, Specials::kNone};
  Accumulator total(1.0);
  for_each<std::uint8_t>(bytes, [&](unsigned pair) {
    total.add(decode(kFormat, pair & 0xFU));
    total.add(decode(kFormat, pair >> 4U));
  });
  return total.finish();
}

}  // namespace

core::TensorStats tensor_stats(core::TensorView tensor) {
  const std::span<const std::byte> bytes = tensor.bytes;
  switch (tensor.dtype) {
    case Dtype::kBool:
    case Dtype::kUInt8:
    case Dtype::kQUInt8:
      return of_numbers<std::uint8_t>(bytes);
    case Dtype::kInt8:
    case Dtype::kQInt8:
      return of_numbers<std::int8_t>(bytes);
    case Dtype::kUInt16:
      return of_numbers<std::uint16_t>(bytes);
    case Dtype::kInt16:
      return of_numbers<std::int16_t>(bytes);
    case Dtype::kUInt32:
      return of_numbers<std::uint32_t>(bytes);
    case Dtype::kInt32:
    case Dtype::kQInt32:
      return of_numbers<std::int32_t>(bytes);
    case Dtype::kUInt64:
      return of_numbers<std::uint64_t>(bytes);
    case Dtype::kInt64:
      return of_numbers<std::int64_t>(bytes);
    case Dtype::kFloat32:
    case Dtype::kComplex64:
      return of_numbers<float>(bytes);
    case Dtype::kFloat64:
    case Dtype::kComplex128:
      return of_numbers<double>(bytes);
    case Dtype::kFloat16:
    case Dtype::kComplex32:
      return of_small<std::uint16_t>({5, 10, 15}, bytes);
    case Dtype::kBFloat16:
      return of_small<std::uint16_t>({8, 7, 127}, bytes);
    case Dtype::kFloat8E4M3FN:
      return of_small<std::uint8_t>({4, 3, 7, Specials::kOneNan}, bytes);
    case Dtype::kFloat8E5M2:
      return of_small<std::uint8_t>({5, 2, 15}, bytes);
    case Dtype::kFloat8E4M3FNUZ:
      return of_small<std::uint8_t>({4, 3, 8, Specials::kNegativeZeroNan}, bytes);
    case Dtype::kFloat8E5M2FNUZ:
      return of_small<std::uint8_t>({5, 2, 16, Specials::kNegativeZeroNan}, bytes);
    case Dtype::kFloat8E8M0FNU:
      return of_exponents(bytes);
    case Dtype::kFloat4E2M1FNX2:
      return of_pairs(bytes);
    case Dtype::kUnknown:
      break;
  }
  throw core::Error(core::ErrorKind::kUnsupportedDtype, "a tensor of unknown dtype has no values");
}

}  // namespace repro_check::cmd
