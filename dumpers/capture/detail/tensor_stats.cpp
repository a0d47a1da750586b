// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/detail/tensor_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace repro_check::capture {
namespace {

/// How a small floating-point format encodes numbers.
struct MiniFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;
  /// Negative zero is the only NaN, as in the `fnuz` formats.
  bool unsigned_zero;
  bool has_nan = true;
};

constexpr MiniFloat kHalf{5, 10, 15, true, false};
constexpr MiniFloat kBrain{8, 7, 127, true, false};
constexpr MiniFloat kE4M3FN{4, 3, 7, false, false};
constexpr MiniFloat kE5M2{5, 2, 15, true, false};
constexpr MiniFloat kE4M3FNUZ{4, 3, 8, false, true};
constexpr MiniFloat kE5M2FNUZ{5, 2, 16, false, true};
constexpr MiniFloat kE2M1FN{2, 1, 1, false, false, false};

double decode(const MiniFloat& format, unsigned bits) {
  const unsigned mantissa_mask = (1U << static_cast<unsigned>(format.mantissa_bits)) - 1U;
  const unsigned exponent_mask = (1U << static_cast<unsigned>(format.exponent_bits)) - 1U;
  const unsigned mantissa = bits & mantissa_mask;
  const unsigned exponent = (bits >> static_cast<unsigned>(format.mantissa_bits)) & exponent_mask;
  const bool negative =
      ((bits >> static_cast<unsigned>(format.mantissa_bits + format.exponent_bits)) & 1U) != 0;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.unsigned_zero) {
    if (negative && exponent == 0 && mantissa == 0) return kNan;
  } else if (exponent == exponent_mask && format.has_nan) {
    if (format.has_infinity && mantissa == 0) {
      return negative ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::infinity();
    }
    // Without infinities only the last code of the last binade is NaN.
    if (format.has_infinity || mantissa == mantissa_mask) return kNan;
  }
  const double fraction = exponent == 0 ? mantissa : mantissa + mantissa_mask + 1.0;
  const int scale =
      std::max<int>(static_cast<int>(exponent), 1) - format.bias - format.mantissa_bits;
  const double magnitude = std::ldexp(fraction, scale);
  return negative ? -magnitude : magnitude;
}

double smallest_normal(const MiniFloat& format) { return std::ldexp(1.0, 1 - format.bias); }

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
    if (value == 0) {
      ++stats_.zeros;
    } else if (std::abs(value) < smallest_normal_) {
      ++stats_.subnormals;
    }
    ++finite_;
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(finite_);
    squares_about_mean_ += delta * (value - mean_);
    squares_ += value * value;
  }

  [[nodiscard]] core::TensorStats finish() const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    core::TensorStats stats = stats_;
    const bool ordered = low_ <= high_;
    stats.min = ordered ? low_ : kNan;
    stats.max = ordered ? high_ : kNan;
    stats.mean = finite_ > 0 ? mean_ : kNan;
    stats.std = finite_ > 0 ? std::sqrt(squares_about_mean_ / static_cast<double>(finite_)) : kNan;
    stats.l2 = finite_ > 0 ? std::sqrt(squares_) : kNan;
    return stats;
  }

 private:
  double smallest_normal_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  double mean_ = 0;
  double squares_about_mean_ = 0;
  double squares_ = 0;
  std::uint64_t finite_ = 0;
  core::TensorStats stats_;
};

/// Calls `each(element)` with every element's bytes as an `Element`, block by block.
template <class Element, class Each>
void for_each_element(const StridedBytes& content, std::size_t parts, Each each) {
  constexpr std::size_t kBlock = std::size_t{1} << 14U;
  std::vector<std::byte> buffer;
  for (std::size_t begin = 0; begin < content.count(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, content.count() - begin);
    buffer.resize(count * content.element_size());
    content.copy(begin, buffer);
    for (std::size_t i = 0; i < count * parts; ++i) {
      Element element;
      std::memcpy(&element, buffer.data() + i * sizeof(Element), sizeof(Element));
      each(element);
    }
  }
}

template <class Number>
core::TensorStats stats_of_numbers(const StridedBytes& content, std::size_t parts = 1) {
  double normal = 0;
  if constexpr (std::is_floating_point_v<Number>) {
    normal = static_cast<double>(std::numeric_limits<Number>::min());
  }
  Accumulator accumulator(normal);
  for_each_element<Number>(
      content, parts, [&](Number value) { accumulator.add(static_cast<double>(value)); });
  return accumulator.finish();
}

template <class Bits>
core::TensorStats stats_of_mini(const MiniFloat& format,
                                const StridedBytes& content,
                                std::size_t parts = 1) {
  Accumulator accumulator(smallest_normal(format));
  for_each_element<Bits>(content, parts, [&](Bits bits) { accumulator.add(decode(format, bits)); });
  return accumulator.finish();
}

/// Only exponents: 255 is NaN, there is neither sign nor zero.
core::TensorStats stats_of_e8m0(const StridedBytes& content) {
  Accumulator accumulator(0);
  for_each_element<std::uint8_t>(content, 1, [&](std::uint8_t bits) {
    constexpr int kBias = 127;
    constexpr std::uint8_t kNanCode = 255;
    accumulator.add(bits == kNanCode ? std::numeric_limits<double>::quiet_NaN()
                                     : std::ldexp(1.0, bits - kBias));
  });
  return accumulator.finish();
}

core::TensorStats stats_of_float4_pairs(const StridedBytes& content) {
  Accumulator accumulator(smallest_normal(kE2M1FN));
  for_each_element<std::uint8_t>(content, 1, [&](unsigned pair) {
    constexpr unsigned kNibble = 15;
    accumulator.add(decode(kE2M1FN, pair & kNibble));
    accumulator.add(decode(kE2M1FN, pair >> 4U));
  });
  return accumulator.finish();
}

}  // namespace

core::TensorStats compute_stats(core::Dtype dtype, const StridedBytes& content) {
  switch (dtype) {
    case core::Dtype::kBool:
    case core::Dtype::kUInt8:
    case core::Dtype::kQUInt8:
      return stats_of_numbers<std::uint8_t>(content);
    case core::Dtype::kInt8:
    case core::Dtype::kQInt8:
      return stats_of_numbers<std::int8_t>(content);
    case core::Dtype::kUInt16:
      return stats_of_numbers<std::uint16_t>(content);
    case core::Dtype::kInt16:
      return stats_of_numbers<std::int16_t>(content);
    case core::Dtype::kUInt32:
      return stats_of_numbers<std::uint32_t>(content);
    case core::Dtype::kInt32:
    case core::Dtype::kQInt32:
      return stats_of_numbers<std::int32_t>(content);
    case core::Dtype::kUInt64:
      return stats_of_numbers<std::uint64_t>(content);
    case core::Dtype::kInt64:
      return stats_of_numbers<std::int64_t>(content);
    case core::Dtype::kFloat32:
      return stats_of_numbers<float>(content);
    case core::Dtype::kFloat64:
      return stats_of_numbers<double>(content);
    case core::Dtype::kComplex64:
      return stats_of_numbers<float>(content, 2);
    case core::Dtype::kComplex128:
      return stats_of_numbers<double>(content, 2);
    case core::Dtype::kFloat16:
      return stats_of_mini<std::uint16_t>(kHalf, content);
    case core::Dtype::kComplex32:
      return stats_of_mini<std::uint16_t>(kHalf, content, 2);
    case core::Dtype::kBFloat16:
      return stats_of_mini<std::uint16_t>(kBrain, content);
    case core::Dtype::kFloat8E4M3FN:
      return stats_of_mini<std::uint8_t>(kE4M3FN, content);
    case core::Dtype::kFloat8E5M2:
      return stats_of_mini<std::uint8_t>(kE5M2, content);
    case core::Dtype::kFloat8E4M3FNUZ:
      return stats_of_mini<std::uint8_t>(kE4M3FNUZ, content);
    case core::Dtype::kFloat8E5M2FNUZ:
      return stats_of_mini<std::uint8_t>(kE5M2FNUZ, content);
    case core::Dtype::kFloat8E8M0FNU:
      return stats_of_e8m0(content);
    case core::Dtype::kFloat4E2M1FNX2:
      return stats_of_float4_pairs(content);
    case core::Dtype::kUnknown:
      break;
  }
  return Accumulator(0).finish();
}

}  // namespace repro_check::capture
