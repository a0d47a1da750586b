// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/quantiser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "core/dtype.h"

namespace repro_check::comparators::detail {
namespace {

using configs::PolicyKind;

/// `scheme=per_tensor_affine scale=0.5 zero_point=3` in its parts.
struct Parameters {
  std::string_view scheme;
  Quantiser quantiser;
};

template <typename Number>
bool read_number(std::string_view text, Number& into) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, into);
  return error == std::errc() && stop == end;
}

std::optional<Parameters> parse(std::string_view text) {
  Parameters parameters;
  bool has_scale = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = item.substr(equals + 1);
    if (key == "scheme") {
      parameters.scheme = value;
    } else if (key == "scale") {
      has_scale = read_number(value, parameters.quantiser.scale);
      if (!has_scale || !std::isfinite(parameters.quantiser.scale)) return std::nullopt;
    } else if (key != "zero_point" || !read_number(value, parameters.quantiser.zero_point)) {
      return std::nullopt;
    }
  }
  if (!has_scale) return std::nullopt;
  return parameters;
}

double integer_at(core::Dtype dtype, const std::byte* at) noexcept {
  if (dtype == core::Dtype::kQInt32) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  const auto byte = static_cast<std::uint8_t>(*at);
  return dtype == core::Dtype::kQInt8 ? static_cast<double>(static_cast<std::int8_t>(byte))
                                      : static_cast<double>(byte);
}

}  // namespace

std::optional<QuantiserPair> quantisers_of(const core::TensorRecord& baseline,
                                           const core::TensorRecord& candidate,
                                           PolicyKind policy) {
  const bool by_value = policy == PolicyKind::kTolerance || policy == PolicyKind::kCosine ||
                        policy == PolicyKind::kMsprobe;
  if (!by_value || !core::is_quantised(baseline.dtype) || baseline.dtype != candidate.dtype) {
    return std::nullopt;
  }
  const auto left = parse(baseline.attributes);
  const auto right = parse(candidate.attributes);
  if (!left || !right || left->scheme != right->scheme) return std::nullopt;
  return QuantiserPair{left->quantiser, right->quantiser};
}

std::vector<std::byte> dequantised(core::TensorView view, const Quantiser& quantiser) {
  const std::size_t size = core::element_size(view.dtype);
  std::vector<std::byte> out(view.bytes.size() / size * sizeof(double));
  for (std::size_t i = 0; i * size < view.bytes.size(); ++i) {
    const double value = (integer_at(view.dtype, view.bytes.data() + i * size) -
                          static_cast<double>(quantiser.zero_point)) *
                         quantiser.scale;
    std::memcpy(out.data() + i * sizeof(double), &value, sizeof value);
  }
  return out;
}

}  // namespace repro_check::comparators::detail
