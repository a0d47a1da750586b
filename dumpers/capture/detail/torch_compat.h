// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only file that knows how LibTorch's spelling differs between 1.13.1 and 2.15. Differences of
// members are asked for with `requires` where they are used; what needs a preprocessor is here.

#include <ATen/NestedTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/version.h>

#include <cstddef>
#include <type_traits>

#define REPRO_CHECK_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||              \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace repro_check::capture {

/// The key whose fallback the engine is: above autograd and everything below it, and used by nobody
/// else.
inline constexpr c10::DispatchKey kCaptureKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// What is left of `keys` for the kernel that the engine stands before.
inline c10::DispatchKeySet below_capture(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kCaptureKey);
}

/// Calls of the engine's own: unseen by itself, by autograd and by Python modes.
class EngineCalls {
 public:
  EngineCalls()
      : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
               c10::DispatchKeySet(kCaptureKey) | c10::DispatchKeySet(c10::DispatchKey::Python) |
               c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot)) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

/// Bytes of a storage, without asking for a private copy of shared memory.
inline const std::byte* storage_bytes(const c10::StorageImpl& storage) {
  return static_cast<const std::byte*>(storage.data());
}

/// Generic, so that a release without the question is no error.
template <class Impl>
bool has_symbolic_sizes(const Impl& impl) {
  if constexpr (requires { impl.has_symbolic_sizes_strides(); }) {
    return impl.has_symbolic_sizes_strides();
  } else {
    return false;
  }
}

/// What a nested tensor is made of.
struct NestedParts {
  at::Tensor buffer;
  at::Tensor sizes;
  at::Tensor strides;
  at::Tensor offsets;
};

/// Generic so that only the spelling of this release is looked up.
template <class Impl>
NestedParts nested_parts(const Impl& impl) {
  NestedParts parts;
  if constexpr (requires { impl.get_unsafe_storage_as_tensor(); }) {
    parts.buffer = impl.get_unsafe_storage_as_tensor();
  } else {
    parts.buffer = impl.get_buffer();
  }
  if constexpr (requires { impl.get_nested_sizes(); }) {
    parts.sizes = impl.get_nested_sizes();
  } else {
    parts.sizes = impl.get_nested_size_tensor();
  }
  if constexpr (requires { impl.get_nested_strides(); }) {
    parts.strides = impl.get_nested_strides();
  } else {
    parts.strides = impl.get_nested_stride_tensor();
  }
  if constexpr (requires { impl.get_storage_offsets(); }) {
    using Offsets = std::decay_t<decltype(impl.get_storage_offsets())>;
    if constexpr (std::is_same_v<Offsets, at::Tensor>) {
      parts.offsets = impl.get_storage_offsets();
    } else {
      parts.offsets = at::tensor(at::IntArrayRef(impl.get_storage_offsets()), at::kLong);
    }
  } else {
    parts.offsets = at::tensor(at::IntArrayRef(impl.get_offsets()), at::kLong);
  }
  return parts;
}

}  // namespace repro_check::capture
