// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/element_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace repro_check::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
T read(std::span<const std::byte> bytes) noexcept {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

template <typename T>
double integer_distance(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  const auto one = read<T>(a);
  const auto other = read<T>(b);
  const auto low = static_cast<std::uint64_t>(std::min(one, other));
  return static_cast<double>(static_cast<std::uint64_t>(std::max(one, other)) - low);
}

double real_distance(Dtype dtype,
                     std::span<const std::byte> a,
                     std::span<const std::byte> b) noexcept {
  if (dtype == Dtype::kInt64) return integer_distance<std::int64_t>(a, b);
  if (dtype == Dtype::kUInt64) return integer_distance<std::uint64_t>(a, b);
  const auto one = element_number(dtype, a);
  const auto other = element_number(dtype, b);
  if (!one || !other) return kNan;
  return *one == *other ? 0 : std::fabs(*other - *one);
}

/// Calls each(number) for all elements, for both parts of complex ones.
template <typename Each>
void for_each_number(Dtype dtype, std::span<const std::byte> content, Each each) {
  const Dtype part = part_dtype(dtype);
  const std::size_t size = element_size(part);
  for (std::size_t at = 0; at + size <= content.size(); at += size) {
    each(element_number(part, content.subspan(at, size)).value_or(kNan));
  }
}

bool is_wide_integer(Dtype dtype) noexcept {
  return dtype == Dtype::kInt64 || dtype == Dtype::kUInt64;
}

}  // namespace

std::optional<double> element_number(Dtype dtype, std::span<const std::byte> element) noexcept {
  double number = 0;
  const bool integer = visit_integer(
      dtype, [&](auto zero) { number = static_cast<double>(read<decltype(zero)>(element)); });
  if (integer) return dtype == Dtype::kBool && number != 0 ? 1 : number;
  if (!is_floating(dtype) || dtype == Dtype::kFloat4E2M1FNX2) return std::nullopt;
  return decode_float(dtype, read<std::uint64_t>(element));
}

std::vector<double> numbers_of(Dtype dtype, std::span<const std::byte> content) {
  std::vector<double> numbers;
  numbers.reserve(content.size() / std::max<std::size_t>(element_size(part_dtype(dtype)), 1));
  for_each_number(dtype, content, [&](double number) { numbers.push_back(number); });
  return numbers;
}

std::string hex_text(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t i = element.size(); i-- > 0;) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i]));
  }
  return text;
}

std::string number_text(Dtype dtype, std::span<const std::byte> element) {
  std::string text;
  const bool integer = visit_integer(
      dtype, [&](auto zero) { text = fmt::format("{}", +read<decltype(zero)>(element)); });
  if (integer || !is_floating(dtype) || dtype == Dtype::kFloat4E2M1FNX2) return text;
  const double value = decode_float(dtype, read<std::uint64_t>(element));
  if (std::isnan(value)) return "nan";
  std::array<char, 64> buffer{};
  char* end = buffer.data() + buffer.size();
  end = dtype == Dtype::kFloat64 ? std::to_chars(buffer.data(), end, value).ptr
                                 : std::to_chars(buffer.data(), end, static_cast<float>(value)).ptr;
  return {buffer.data(), end};
}

double element_distance(Dtype dtype,
                        std::span<const std::byte> a,
                        std::span<const std::byte> b) noexcept {
  if (!is_complex(dtype)) return real_distance(dtype, a, b);
  const std::size_t half = a.size() / 2;
  const Dtype part = part_dtype(dtype);
  return std::hypot(real_distance(part, a.first(half), b.first(half)),
                    real_distance(part, a.last(half), b.last(half)));
}

std::optional<ValueHistogram> value_histogram(Dtype dtype,
                                              std::span<const std::byte> content,
                                              std::size_t bins) {
  if (dtype == Dtype::kUnknown || dtype == Dtype::kFloat4E2M1FNX2) return std::nullopt;
  ValueHistogram histogram;
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for_each_number(dtype, content, [&](double number) {
    if (!std::isfinite(number)) {
      ++histogram.not_finite;
      return;
    }
    least = std::min(least, number);
    greatest = std::max(greatest, number);
  });
  if (least > greatest) return histogram;
  histogram.least = least;
  histogram.greatest = greatest;
  histogram.counts.resize(least == greatest ? 1 : bins);
  // Halves, because the width of all doubles is no double.
  const double width = greatest / 2 - least / 2;
  for_each_number(dtype, content, [&](double number) {
    if (!std::isfinite(number)) return;
    const double share = width > 0 ? (number / 2 - least / 2) / width : 0;
    const auto bin = static_cast<std::size_t>(share * static_cast<double>(histogram.counts.size()));
    ++histogram.counts[std::min(bin, histogram.counts.size() - 1)];
  });
  return histogram;
}

bool is_conversion_target(Dtype dtype) noexcept {
  return is_floating(dtype) && dtype != Dtype::kFloat4E2M1FNX2 && dtype != Dtype::kFloat8E8M0FNU;
}

std::vector<std::byte> converted(Dtype from, std::span<const std::byte> content, Dtype to) {
  const std::size_t size = element_size(from);
  const bool has_numbers =
      size != 0 && element_number(from, std::vector<std::byte>(size)).has_value();
  if (!is_conversion_target(to) || !has_numbers ||
      (is_wide_integer(from) && to != Dtype::kFloat64)) {
    throw Error(ErrorKind::kUnsupportedDtype,
                fmt::format("{} is not converted to {}", dtype_name(from), dtype_name(to)),
                is_wide_integer(from) ? "use float64" : std::string());
  }
  const std::size_t target = element_size(to);
  std::vector<std::byte> made(content.size() / size * target);
  for (std::size_t i = 0; i < content.size() / size; ++i) {
    const double number = element_number(from, content.subspan(i * size, size)).value_or(kNan);
    const std::uint64_t bits = encode_float(to, number);
    std::memcpy(made.data() + i * target, &bits, target);
  }
  return made;
}

}  // namespace repro_check::core
