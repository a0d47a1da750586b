// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dumpers/capture/tensors/strided_bytes.h"

namespace repro_check::capture {

/// Which of the awkward kinds a tensor is (trap 8).
enum class TensorForm : std::uint8_t {
  kUndefined,
  kStrided,
  kSparseCoo,
  kSparseCompressed,
  kNested,
  kMkldnn,
  kOpaque,  ///< nothing of it can be read: wrappers of transforms, Python subclasses
};

TensorForm form_of(const at::Tensor& tensor);

/// Tensors a composite, packed or quantised one is made of, with the ending their slots get.
using TensorParts = std::vector<std::pair<std::string, at::Tensor>>;

/// @param attributes  set to what is known besides the parts, exactly: `sparse_dim=2 ...`
TensorParts parts_of(const at::Tensor& tensor, TensorForm form, std::string& attributes);

/// Bytes of the storage of a strided tensor; 0 for any other.
std::size_t storage_size_of(const at::Tensor& tensor);

/// Those parts of a composite tensor that lie in a storage.
std::vector<at::Tensor> strided_parts(const at::Tensor& tensor, TensorForm form);

/// Calls `each` with the tensor, or with the parts of a composite one. Opaque ones have none.
template <class Each>
void for_each_strided(const at::Tensor& tensor, Each&& each) {
  const TensorForm form = form_of(tensor);
  if (form == TensorForm::kStrided) {
    each(tensor);
    return;
  }
  for (const at::Tensor& part : strided_parts(tensor, form)) each(part);
}

/// Calls `each` with every storage the tensor's content lies in.
template <class Each>
void for_each_storage(const at::Tensor& tensor, Each&& each) {
  for_each_strided(
      tensor, [&](const at::Tensor& part) { each(part.unsafeGetTensorImpl()->unsafe_storage()); });
}

/// A tensor's elements in host memory, with what keeps them alive.
struct HostContent {
  at::Tensor holder;
  StridedBytes bytes;
};

/// Empty where there are no bytes to read (meta, freed storage), or the view reaches past the end.
/// Device tensors are waited for and copied.
std::optional<HostContent> host_content(const at::Tensor& tensor);

}  // namespace repro_check::capture
