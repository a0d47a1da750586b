// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only file that knows how LibTorch's spelling differs between 1.13.1 and 2.15. Differences of
// members are asked for with `requires` where they are used; what needs a preprocessor is here.

#include <ATen/Context.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_nested_view_from_buffer.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>

#include "core/tensor/dtype.h"

#define REPRO_CHECK_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||              \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace repro_check::capture {

/// The settings of the process. As a template's parameter, so that `requires` may ask what they
/// have.
template <class C>
C& context() {
  return at::globalContext();
}

/// The key whose fallback the engine is: above autograd and everything below it, and used by nobody
/// else.
inline constexpr c10::DispatchKey kCaptureKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// What is left of `keys` for the kernel that the engine stands before.
inline c10::DispatchKeySet below_capture(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kCaptureKey);
}

/// Calls of the engine's own: unseen by itself, by autograd, by Python modes and by transforms.
class EngineCalls {
 public:
  EngineCalls()
      : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
               c10::DispatchKeySet({kCaptureKey,
                                    c10::DispatchKey::Python,
                                    c10::DispatchKey::PythonTLSSnapshot,
                                    c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                    c10::DispatchKey::FuncTorchDynamicLayerBackMode})) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

/// Whether the calling thread is inside of `vmap`, `grad` or another transform.
inline bool inside_transforms() {
  return c10::impl::tls_is_dispatch_key_included(
             c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchVmapMode);
}

#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
namespace warnings_of = c10::WarningUtils;
#else
namespace warnings_of = c10::Warning;
#endif

/// A handler of warnings that every release can call.
class WarningListener : public c10::WarningHandler {
 public:
#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
  void process(const c10::Warning& warning) final { hear(warning.msg()); }
#else
  void process(const c10::SourceLocation& /*where*/,
               const std::string& text,
               const bool /*verbatim*/) final {
    hear(text);
  }
#endif

 private:
  virtual void hear(const std::string& text) = 0;
};

/// Nobody hears what LibTorch warns of on this thread: it is about a call of the engine's own, and
/// would be told in the model's name.
class UnheardWarnings {
 private:
  class Deaf final : public WarningListener {
    void hear(const std::string& /*text*/) override {}
  };

  Deaf deaf_;
  warnings_of::WarningHandlerGuard guard_{&deaf_};
};

/// Of what was thrown the line that says what is wrong; LibTorch adds a backtrace of many.
inline std::string reason_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

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

/// Generic for the same reason; `offsets` is one number a component.
template <class Tensor>
Tensor nested_view(const Tensor& buffer,
                   const Tensor& sizes,
                   const Tensor& strides,
                   const Tensor& offsets) {
  if constexpr (requires { at::_nested_view_from_buffer(buffer, sizes, strides, offsets); }) {
    return at::_nested_view_from_buffer(buffer, sizes, strides, offsets);
  } else {
    const Tensor numbers = offsets.contiguous();
    return at::_nested_view_from_buffer(buffer,
                                        sizes,
                                        strides,
                                        at::IntArrayRef(numbers.template data_ptr<std::int64_t>(),
                                                        static_cast<std::size_t>(numbers.numel())));
  }
}

/// Releases before 2.0 do not say what a tensor inside of transforms stands for.
inline constexpr bool kOpensTransforms = REPRO_CHECK_TORCH_AT_LEAST(2, 0);

/// What a tensor inside of transforms (`vmap`, `grad`) stands for.
struct Transformed {
  at::Tensor values;       ///< what all of them hold; undefined where that is not said
  std::string transforms;  ///< outermost first: `vmap=0 grad`; of vmap the dimension that it adds
};
/// @param tensor  that a transform made
Transformed transformed(const at::Tensor& tensor);

/// Of the first tensor in a stack that is of a class of Python's and no mere shape, as a FakeTensor
/// is; null where there is none.
c10::impl::PyInterpreter* python_interpreter(const torch::jit::Stack& stack);

/// Of a tensor whose values only its class of Python's knows the object, null where this LibTorch
/// does not tell it; empty of any other, and of a mere shape.
std::optional<const void*> python_object(const at::Tensor& tensor);

/// `SUM` of a c10d.ReduceOp; empty of what is none, and where this LibTorch has no c10d.
std::string reduce_op_name(const c10::IValue& value);

/// kUnknown for element types a dump has no name for (sub-byte integers, undefined).
core::Dtype dtype_of(c10::ScalarType type) noexcept;
std::optional<c10::ScalarType> scalar_type_of(core::Dtype dtype) noexcept;

/// `float32`, as core::dtype_name has it, or LibTorch's own word in lower case.
std::string scalar_type_name(c10::ScalarType type);

/// `strided`, `sparse_coo`, `sparse_csr`, `mkldnn`, ...
std::string layout_name(c10::Layout layout);

/// `contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d`.
std::string memory_format_name(c10::MemoryFormat format);

/// `cpu`, `cuda:0`.
void device_name(const c10::Device& device, std::string& into);

}  // namespace repro_check::capture
