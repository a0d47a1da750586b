// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/generated_tensor.h"

#include <ATen/Functions.h>
#include <torch/version.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "dumpers/torchscript/detail/torch_types.h"
#include "dumpers/torchscript/random_numbers.h"

namespace repro_check::torchscript {
namespace {

using configs::Distribution;
using configs::GeneratedInput;

constexpr double kInt64Bound = 0x1p63;

core::Error usage(const std::string& where, const std::string& message, const std::string& hint) {
  return {core::ErrorKind::kUsage, where + ": " + message, hint};
}

std::int64_t count_elements(const GeneratedInput& input, const std::string& where) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : input.shape) {
    if (size < 0) throw usage(where, "a shape has no negative sizes", "give sizes of 0 and more");
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return 0;
  const std::size_t width = core::element_size(input.dtype);
  std::int64_t bytes = 0;
  if (overflow || __builtin_mul_overflow(count, static_cast<std::int64_t>(width), &bytes)) {
    throw usage(where, "the shape has more elements than there are addresses", "make it smaller");
  }
  return count;
}

double checked(double value, const std::string& where, const char* name) {
  if (!std::isfinite(value)) {
    throw usage(where, std::string(name) + " must be a finite number", "give a number");
  }
  return value;
}

/// An integer that a double of the configuration holds exactly.
std::int64_t whole(double value, const std::string& where, const char* name) {
  if (std::floor(value) != value || value < -kInt64Bound || value >= kInt64Bound) {
    throw usage(where,
                std::string(name) + " must be a whole number of 64 bits",
                "give an integer, or use \"uniform\"");
  }
  return static_cast<std::int64_t>(value);
}

/// Largest value of an integer dtype; empty for the others.
std::optional<std::pair<double, double>> integer_range(core::Dtype dtype) {
  if (!core::is_integral(dtype)) return std::nullopt;
  const auto bits = static_cast<int>(core::element_size(dtype) * 8);
  const bool is_signed = core::dtype_name(dtype).front() == 'i';
  return is_signed ? std::pair{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1)}
                   : std::pair{0.0, std::ldexp(1, bits)};
}

void check_range(core::Dtype dtype, double first, double end, const std::string& where) {
  const auto range = integer_range(dtype);
  if (range && (first < range->first || end > range->second)) {
    throw usage(where,
                "values from " + std::to_string(static_cast<std::int64_t>(first)) + " do not fit " +
                    std::string(core::dtype_name(dtype)),
                "narrow low and high, or take a wider dtype");
  }
}

at::Tensor make_integers(const GeneratedInput& input,
                         std::int64_t count,
                         const std::string& where) {
  at::Tensor values = at::empty({count}, at::kLong);
  auto* data = values.data_ptr<std::int64_t>();
  const std::int64_t low = whole(input.low, where, "low");
  if (input.distribution == Distribution::kArange) {
    check_range(input.dtype, input.low, input.low + static_cast<double>(count), where);
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + i;
    return values;
  }
  const std::int64_t high = whole(input.high, where, "high");
  if (low >= high) throw usage(where, "low must be below high", "high itself is never drawn");
  check_range(input.dtype, input.low, input.high, where);
  RandomNumbers random(input.seed);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + random.below(range));
  }
  return values;
}

at::Tensor make_reals(const GeneratedInput& input, std::int64_t count, const std::string& where) {
  at::Tensor values = at::empty({count}, at::kDouble);
  auto* data = values.data_ptr<double>();
  RandomNumbers random(input.seed);
  if (input.distribution == Distribution::kNormal) {
    const double mean = checked(input.mean, where, "mean");
    const double std = checked(input.std, where, "std");
    for (std::int64_t i = 0; i < count; ++i) data[i] = mean + std * random.normal();
    return values;
  }
  const double low = checked(input.low, where, "low");
  const double width = checked(checked(input.high, where, "high") - low, where, "high - low");
  if (input.distribution == Distribution::kArange) {
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + static_cast<double>(i);
    return values;
  }
  if (width <= 0) throw usage(where, "low must be below high", "high itself is never drawn");
  for (std::int64_t i = 0; i < count; ++i) data[i] = low + width * random.uniform();
  return values;
}

/// Arithmetic as the machine has it of itself, whatever the run flushes: one configuration gives
/// one input under every setting.
class PlainArithmetic {
 public:
  PlainArithmetic() {
    std::fegetenv(&kept_);
    std::fesetenv(FE_DFL_ENV);
  }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;
  PlainArithmetic(PlainArithmetic&&) = delete;
  PlainArithmetic& operator=(PlainArithmetic&&) = delete;
  ~PlainArithmetic() { std::fesetenv(&kept_); }

 private:
  std::fenv_t kept_{};
};

/// Rounding to a short dtype may reach the upper bound, which is promised never to appear.
void keep_below_high(at::Tensor& values, const GeneratedInput& input) {
  if (input.distribution != Distribution::kUniform || !values.is_floating_point()) return;
  values.masked_fill_(values.to(at::kDouble).ge(input.high), input.low);
}

}  // namespace

at::Tensor generate_tensor(const GeneratedInput& input, const std::string& where) {
  const PlainArithmetic plain;
  const auto type = to_scalar_type(input.dtype);
  if (!type) {
    throw usage(where,
                "dtype " + std::string(core::dtype_name(input.dtype)) +
                    " cannot be generated under LibTorch " TORCH_VERSION,
                "take another dtype, or give the tensor as a file");
  }
  const std::int64_t count = count_elements(input, where);
  const Distribution kind = input.distribution;
  const bool constant = kind == Distribution::kZeros || kind == Distribution::kOnes;
  if (constant) {
    const double value = kind == Distribution::kOnes ? 1 : 0;
    return at::full({}, value, at::kDouble).to(*type).expand(input.shape).contiguous();
  }
  const bool integers = kind == Distribution::kRandint ||
                        (kind == Distribution::kArange && core::is_integral(input.dtype));
  const bool complex = core::is_complex(input.dtype);
  const std::int64_t drawn = complex ? 2 * count : count;
  at::Tensor values =
      integers ? make_integers(input, drawn, where) : make_reals(input, drawn, where);
  if (complex) {
    values = at::view_as_complex(values.to(at::kDouble).reshape({count, 2}));
  } else if (core::element_size(input.dtype) < 4) {
    // Through float32 on every path: some releases round a float64 to 16 bits in two steps.
    values = integers ? values : values.to(at::kFloat);
  }
  values = values.to(*type).reshape(input.shape);
  keep_below_high(values, input);
  return values;
}

}  // namespace repro_check::torchscript
