// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/tensor_form.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string_view>

#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/capture/torch/torch_names.h"

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

namespace {

TensorParts sparse_coo_parts(const at::Tensor& tensor, std::string& attributes) {
  attributes = fmt::format("sparse_dim={} dense_dim={} nnz={} coalesced={}",
                           tensor.sparse_dim(),
                           tensor.dense_dim(),
                           tensor._nnz(),
                           tensor.is_coalesced());
  return {{"indices", tensor._indices()}, {"values", tensor._values()}};
}

TensorParts sparse_compressed_parts(const at::Tensor& tensor, std::string& attributes) {
  attributes = fmt::format("dense_dim={} nnz={}", tensor.dense_dim(), tensor._nnz());
  const bool by_row =
      tensor.layout() == c10::Layout::SparseCsr || tensor.layout() == c10::Layout::SparseBsr;
  if (by_row) {
    return {{"crow_indices", tensor.crow_indices()},
            {"col_indices", tensor.col_indices()},
            {"values", tensor.values()}};
  }
  return {{"ccol_indices", tensor.ccol_indices()},
          {"row_indices", tensor.row_indices()},
          {"values", tensor.values()}};
}

TensorParts nested_tensor_parts(const at::Tensor& tensor, std::string& attributes) {
  const NestedParts parts = nested_parts(*at::native::get_nested_tensor_impl(tensor));
  attributes = fmt::format("dim={} components={}", tensor.dim(), parts.sizes.size(0));
  return {{"values", parts.buffer},
          {"sizes", parts.sizes},
          {"strides", parts.strides},
          {"offsets", parts.offsets}};
}

/// Doubles with all their digits, so that equal text means equal parameters.
TensorParts quantised_parts(const at::Tensor& tensor, std::string& attributes) {
  const c10::QScheme scheme = tensor.qscheme();
  if (scheme == c10::kPerTensorAffine || scheme == c10::kPerTensorSymmetric) {
    attributes = fmt::format("scheme={} scale={:.17g} zero_point={}",
                             c10::toString(scheme),
                             tensor.q_scale(),
                             tensor.q_zero_point());
    return {};
  }
  attributes = fmt::format("scheme={} axis={}", c10::toString(scheme), tensor.q_per_channel_axis());
  return {{"scales", tensor.q_per_channel_scales()},
          {"zero_points", tensor.q_per_channel_zero_points()}};
}

/// Of a tensor whose dtype a dump has no name for: its bytes, and its quantiser.
TensorParts packed_parts(const at::Tensor& tensor, std::string& attributes) {
  TensorParts parts;
  if (tensor.is_quantized()) parts = quantised_parts(tensor, attributes);
  if (at::Tensor bytes = raw_bytes(tensor); bytes.defined()) {
    parts.emplace(parts.begin(), "values", std::move(bytes));
  } else {
    attributes += attributes.empty() ? "elements=unreadable" : " elements=unreadable";
  }
  return parts;
}

/// Whether every element of the view lies inside its storage. A storage may have been freed or
/// shrunk under it.
bool fits_storage(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  const auto bytes = static_cast<std::size_t>((last + 1) * tensor.element_size());
  return bytes <= tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes();
}

StridedBytes strided_bytes(const at::Tensor& tensor) {
  const auto element = static_cast<std::size_t>(tensor.element_size());
  const std::byte* base = nullptr;
  if (tensor.numel() > 0) {
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    base = storage_bytes(*storage.unsafeGetStorageImpl()) +
           static_cast<std::size_t>(tensor.storage_offset()) * element;
  }
  return {base,
          element,
          {tensor.sizes().data(), tensor.sizes().size()},
          {tensor.strides().data(), tensor.strides().size()}};
}

}  // namespace

TensorForm form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return TensorForm::kUndefined;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::Python,
                                           c10::DispatchKey::Functionalize,
                                           c10::DispatchKey::FuncTorchBatched,
                                           c10::DispatchKey::FuncTorchGradWrapper});
  if (impl.key_set().has_any(kWrappers) || has_symbolic_sizes(impl)) return TensorForm::kOpaque;
  if (impl.is_nested()) return TensorForm::kNested;
  switch (impl.layout()) {
    case c10::Layout::Strided:
      return impl.has_storage() ? TensorForm::kStrided : TensorForm::kOpaque;
    case c10::Layout::Sparse:
      return TensorForm::kSparseCoo;
    case c10::Layout::SparseCsr:
    case c10::Layout::SparseCsc:
    case c10::Layout::SparseBsr:
    case c10::Layout::SparseBsc:
      return TensorForm::kSparseCompressed;
    case c10::Layout::Mkldnn:
      return TensorForm::kMkldnn;
    default:
      return TensorForm::kOpaque;
  }
}

TensorParts parts_of(const at::Tensor& tensor, TensorForm form, std::string& attributes) {
  const EngineCalls guard;
  switch (form) {
    case TensorForm::kSparseCoo:
      return sparse_coo_parts(tensor, attributes);
    case TensorForm::kSparseCompressed:
      return sparse_compressed_parts(tensor, attributes);
    case TensorForm::kNested:
      return nested_tensor_parts(tensor, attributes);
    case TensorForm::kStrided:
      if (dtype_of(tensor.scalar_type()) == core::Dtype::kUnknown) {
        return packed_parts(tensor, attributes);
      }
      if (tensor.is_quantized()) return quantised_parts(tensor, attributes);
      break;
    default:
      break;
  }
  return {};
}

std::size_t storage_size_of(const at::Tensor& tensor) {
  if (form_of(tensor) != TensorForm::kStrided) return 0;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes();
}

std::vector<at::Tensor> strided_parts(const at::Tensor& tensor, TensorForm form) {
  std::vector<at::Tensor> strided;
  std::string unused;
  for (auto& [ending, part] : parts_of(tensor, form, unused)) {
    if (form_of(part) == TensorForm::kStrided) strided.push_back(std::move(part));
  }
  return strided;
}

std::optional<HostContent> host_content(const at::Tensor& tensor) {
  at::Tensor holder = tensor;
  if (form_of(tensor) == TensorForm::kMkldnn) {
    const EngineCalls guard;
    holder = tensor.to_dense();
  } else if (tensor.is_meta()) {
    return std::nullopt;
  } else if (tensor._is_zerotensor()) {
    const EngineCalls guard;
    holder = at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
  } else if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg()) {
    const EngineCalls guard;
    holder = tensor.resolve_conj().resolve_neg().to(at::kCPU);
  }
  if (holder.numel() > 0) {
    const c10::Storage& storage = holder.unsafeGetTensorImpl()->unsafe_storage();
    if (storage_bytes(*storage.unsafeGetStorageImpl()) == nullptr || !fits_storage(holder)) {
      return std::nullopt;
    }
  }
  StridedBytes bytes = strided_bytes(holder);
  return HostContent{std::move(holder), std::move(bytes)};
}

}  // namespace repro_check::capture
