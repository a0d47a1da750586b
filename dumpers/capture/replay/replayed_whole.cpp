// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/replay/replayed_whole.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/capture/torch/torch_names.h"

namespace repro_check::capture {
namespace {

[[noreturn]] void cannot(const core::TensorRecord& tensor, std::string_view why) {
  throw core::Error(core::ErrorKind::kNotComparable,
                    fmt::format("argument {}: this {} tensor ({}) cannot be made again: {}",
                                tensor.slot,
                                tensor.layout,
                                tensor.attributes,
                                why.substr(0, why.find('\n'))),
                    "replay another operator");
}

/// Of `key=value key=value`; empty where the key is not there.
std::string_view attribute(const core::TensorRecord& tensor, std::string_view key) {
  std::string_view text = tensor.attributes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    if (item.starts_with(key) && item.substr(key.size()).starts_with('=')) {
      return item.substr(key.size() + 1);
    }
  }
  return {};
}

template <typename Number>
Number number(const core::TensorRecord& tensor, std::string_view key) {
  const std::string_view text = attribute(tensor, key);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    cannot(tensor, "its attributes are not understood");
  }
  return value;
}

at::Tensor quantised(const core::TensorRecord& tensor,
                     const at::Tensor& integers,
                     const PartOf& part) {
  if (attribute(tensor, "axis").empty()) {
    return at::_make_per_tensor_quantized_tensor(
        integers, number<double>(tensor, "scale"), number<std::int64_t>(tensor, "zero_point"));
  }
  return at::_make_per_channel_quantized_tensor(
      integers, part("scales"), part("zero_points"), number<std::int64_t>(tensor, "axis"));
}

std::optional<c10::Layout> compressed_layout(std::string_view name) {
  for (const c10::Layout layout : {c10::Layout::SparseCsr,
                                   c10::Layout::SparseCsc,
                                   c10::Layout::SparseBsr,
                                   c10::Layout::SparseBsc}) {
    if (layout_name(layout) == name) return layout;
  }
  return std::nullopt;
}

at::Tensor sparse(const core::TensorRecord& tensor, const PartOf& part, c10::Device device) {
  const at::Tensor values = part("values");
  if (!values.defined()) cannot(tensor, "its values are not there");
  if (tensor.layout == layout_name(c10::Layout::Sparse)) {
    const at::Tensor made = at::sparse_coo_tensor(
        part("indices"), values, tensor.shape, values.options().layout(at::kSparse).device(device));
    return made._coalesced_(attribute(tensor, "coalesced") == "true");
  }
  const auto layout = compressed_layout(tensor.layout);
  if (!layout) cannot(tensor, "this layout has no builder");
  const bool by_row = part("crow_indices").defined();
  return at::sparse_compressed_tensor(part(by_row ? "crow_indices" : "ccol_indices"),
                                      part(by_row ? "col_indices" : "row_indices"),
                                      values,
                                      tensor.shape,
                                      values.options().layout(*layout).device(device));
}

at::Tensor nested(const core::TensorRecord& tensor, const PartOf& part) {
  const at::Tensor buffer = part("values");
  const at::Tensor sizes = part("sizes");
  const at::Tensor strides = part("strides");
  const at::Tensor offsets = part("offsets");
  if (!buffer.defined() || !sizes.defined() || !strides.defined() || !offsets.defined()) {
    cannot(tensor, "its parts are not there");
  }
  // A view of a buffer looks at nothing; a component that is made by itself must lie inside.
  for (std::int64_t i = 0; i < sizes.size(0); ++i) {
    const auto numbers = [](const at::Tensor& row) {
      const at::Tensor flat = row.contiguous();
      return at::IntArrayRef(flat.data_ptr<std::int64_t>(), static_cast<std::size_t>(flat.numel()))
          .vec();
    };
    buffer.as_strided(numbers(sizes[i]), numbers(strides[i]), offsets[i].item<std::int64_t>());
  }
  return nested_view(buffer, sizes, strides, offsets);
}

}  // namespace

at::Tensor whole_from_parts(const core::TensorRecord& tensor,
                            const at::Tensor& integers,
                            const PartOf& part,
                            c10::Device device) {
  try {
    if (tensor.layout == "quantised") return quantised(tensor, integers, part);
    return tensor.layout == "nested" ? nested(tensor, part) : sparse(tensor, part, device);
  } catch (const c10::Error& error) {
    cannot(tensor, error.what_without_backtrace());
  }
}

}  // namespace repro_check::capture
