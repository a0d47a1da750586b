// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/conversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/tensor/element_number.h"
#include "core/text/text.h"

namespace repro_check::comparators {
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
      const auto wide =
          static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): it is a number
      std::memcpy(out.data() + i * sizeof wide, &wide, sizeof wide);
    }
  });
  if (integers) return out;
  return core::converted(core::part_dtype(view.dtype), view.bytes, core::part_dtype(dtype));
}

namespace {

using configs::PolicyKind;

/// `scheme=per_tensor_affine scale=0.5 zero_point=3`, or `scheme=per_channel_affine axis=0`, in its
/// parts.
struct Parameters {
  std::string_view scheme;
  std::optional<double> scale;
  std::int64_t zero_point = 0;
  std::optional<std::size_t> axis;
};

/// Empty where an item is not understood.
std::optional<Parameters> parse(std::string_view text) {
  Parameters parameters;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = item.substr(std::min(equals + 1, item.size()));
    bool understood = key.size() < item.size();
    if (key == "scheme") {
      parameters.scheme = value;
    } else if (key == "scale") {
      parameters.scale = core::parse_number<double>(value);
      understood = parameters.scale && std::isfinite(*parameters.scale);
    } else if (key == "axis") {
      parameters.axis = core::parse_number<std::size_t>(value);
      understood = parameters.axis.has_value();
    } else {
      const auto zero_point = core::parse_number<std::int64_t>(value);
      understood = key == "zero_point" && zero_point;
      parameters.zero_point = zero_point.value_or(0);
    }
    if (!understood) return std::nullopt;
  }
  if (parameters.scale.has_value() == parameters.axis.has_value()) return std::nullopt;
  return parameters;
}

Quantiser quantiser_of(const Parameters& parameters) {
  if (parameters.axis) return {.axis = parameters.axis};
  return {.axis = std::nullopt,
          .scales = {*parameters.scale},
          .zero_points = {static_cast<double>(parameters.zero_point)}};
}

}  // namespace

bool judges_dequantised(PolicyKind policy) noexcept {
  return policy == PolicyKind::kTolerance || policy == PolicyKind::kCosine ||
         policy == PolicyKind::kMsprobe;
}

std::optional<QuantiserPair> quantisers_of(const core::TensorRecord& baseline,
                                           const core::TensorRecord& candidate,
                                           PolicyKind policy) {
  if (!judges_dequantised(policy) || !core::is_quantised(baseline.dtype) ||
      baseline.dtype != candidate.dtype) {
    return std::nullopt;
  }
  const auto left = parse(baseline.attributes);
  const auto right = parse(candidate.attributes);
  if (!left || !right || left->scheme != right->scheme || left->axis != right->axis ||
      (left->axis && *left->axis >= baseline.shape.size())) {
    return std::nullopt;
  }
  return QuantiserPair{quantiser_of(*left), quantiser_of(*right)};
}

std::vector<double> channel_numbers(core::TensorView view) {
  const bool known = view.dtype == core::Dtype::kFloat32 || view.dtype == core::Dtype::kFloat64 ||
                     view.dtype == core::Dtype::kInt32 || view.dtype == core::Dtype::kInt64;
  return known ? core::numbers_of(view.dtype, view.bytes) : std::vector<double>();
}

DequantisedParts::DequantisedParts(std::unique_ptr<core::ContentParts> integers,
                                   core::Dtype dtype,
                                   std::span<const std::int64_t> shape,
                                   Quantiser quantiser)
    : integers_(std::move(integers)), dtype_(dtype), quantiser_(std::move(quantiser)) {
  if (!quantiser_.axis) {
    run_ = std::max<std::uint64_t>(1, size());
    return;
  }
  const auto inner =
      static_cast<std::uint64_t>(core::element_count(shape.subspan(*quantiser_.axis + 1)));
  run_ = std::max<std::uint64_t>(1, inner);
}

std::uint64_t DequantisedParts::size() const noexcept {
  return integers_->size() / core::element_size(dtype_) * sizeof(double);
}

std::span<const std::byte> DequantisedParts::read(std::uint64_t begin,
                                                  std::span<std::byte> buffer) const {
  const std::size_t width = core::element_size(dtype_);
  const std::size_t count = buffer.size() / sizeof(double);
  const std::uint64_t first = begin / sizeof(double);
  std::vector<std::byte> room(count * width);
  const std::span<const std::byte> integers = integers_->read(first * width, room);
  std::uint64_t channel = first / run_ % quantiser_.scales.size();
  std::uint64_t left = run_ - first % run_;
  for (std::size_t i = 0; i < count; ++i, --left) {
    if (left == 0) {
      channel = (channel + 1) % quantiser_.scales.size();
      left = run_;
    }
    const double integer = *core::element_number(dtype_, integers.subspan(i * width, width));
    const double value = (integer - quantiser_.zero_points[channel]) * quantiser_.scales[channel];
    std::memcpy(buffer.data() + i * sizeof(double), &value, sizeof value);
  }
  return buffer;
}

}  // namespace repro_check::comparators
