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

/// The bytes of a strided tensor whose dtype a dump has no name for, as uint8 on the same storage:
/// of `quint4x2` and `quint2x4` one flat row of packed elements, of `bits*`, `int1` to `int7` and
/// `uint1` to `uint7` the tensor's own shape, with one more dimension where an element has several
/// bytes. Undefined where it cannot be told which bytes are the tensor's: LibTorch takes the
/// offset and the strides of packed elements for bytes, so that a view of them shows others than
/// it means; and for a dtype that is none of these.
at::Tensor raw_bytes(const at::Tensor& tensor);

/// Bits of the last byte of raw_bytes() that no element of the tensor lies in; 0 for none.
std::uint8_t unused_bits(const at::Tensor& tensor);

/// A copy with these bits of the last byte 0.
/// @param bytes  uint8, contiguous, on the host, with at least one element
at::Tensor without_bits(const at::Tensor& bytes, std::uint8_t bits);

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
