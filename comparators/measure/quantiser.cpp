// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/quantiser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/tensor/element_number.h"

namespace repro_check::comparators::detail {
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

template <typename Number>
bool read_number(std::string_view text, Number& into) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, into);
  return error == std::errc() && stop == end;
}

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
      understood =
          read_number(value, parameters.scale.emplace()) && std::isfinite(*parameters.scale);
    } else if (key == "axis") {
      understood = read_number(value, parameters.axis.emplace());
    } else {
      understood = key == "zero_point" && read_number(value, parameters.zero_point);
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

}  // namespace repro_check::comparators::detail
