// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/packed_form.h"

#include <ATen/ATen.h>

#include <string_view>
#include <utility>
#include <vector>

#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::int64_t kBitsPerByte = 8;

/// 0 for a dtype whose bytes nobody has looked at. By word, because the enumerators of newer types
/// do not exist in older releases.
std::int64_t elements_per_byte(c10::ScalarType type) {
  const std::string_view word = c10::toString(type);
  if (word == "QUInt4x2") return 2;
  if (word == "QUInt2x4") return 4;
  const bool whole_bytes =
      word.starts_with("Bits") || word.starts_with("Int") || word.starts_with("UInt");
  return whole_bytes ? 1 : 0;
}

/// Made without the dispatcher, which knows no such view. Sizes, strides and offset are in bytes.
at::Tensor bytes_at(const at::Tensor& tensor,
                    at::IntArrayRef sizes,
                    at::IntArrayRef strides,
                    std::int64_t offset) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys =
      impl.key_set().remove(c10::DispatchKey::Quantized).add(c10::DispatchKey::Dense);
  auto bytes = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                    c10::Storage(impl.unsafe_storage()),
                                                    keys,
                                                    caffe2::TypeMeta::Make<std::uint8_t>());
  bytes->set_sizes_and_strides(sizes, strides);
  bytes->set_storage_offset(offset);
  bytes->set_version_counter(impl.version_counter());
  return at::Tensor(std::move(bytes));
}

}  // namespace

at::Tensor raw_bytes(const at::Tensor& tensor) {
  const std::int64_t per_byte = elements_per_byte(tensor.scalar_type());
  if (per_byte == 0) return {};
  if (per_byte > 1) {
    if (!tensor.is_contiguous() || tensor.storage_offset() != 0) return {};
    return bytes_at(tensor, {(tensor.numel() + per_byte - 1) / per_byte}, {1}, 0);
  }
  const std::int64_t width = tensor.element_size();
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  std::vector<std::int64_t> strides = tensor.strides().vec();
  if (width != 1) {
    for (std::int64_t& stride : strides) stride *= width;
    sizes.push_back(width);
    strides.push_back(1);
  }
  return bytes_at(tensor, sizes, strides, tensor.storage_offset() * width);
}

std::uint8_t unused_bits(const at::Tensor& tensor) {
  const std::int64_t per_byte = elements_per_byte(tensor.scalar_type());
  const std::int64_t in_last = per_byte > 1 ? tensor.numel() % per_byte : 0;
  if (in_last == 0) return 0;
  // The first element lies in the lowest bits.
  return static_cast<std::uint8_t>(0xFFU << (in_last * kBitsPerByte / per_byte));
}

at::Tensor without_bits(const at::Tensor& bytes, std::uint8_t bits) {
  const EngineCalls guard;
  at::Tensor copy = bytes.clone();
  std::uint8_t& last = copy.data_ptr<std::uint8_t>()[copy.numel() - 1];
  last = static_cast<std::uint8_t>(last & ~bits);
  return copy;
}

}  // namespace repro_check::capture
