// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/torch/torch_compat.h"

#include <ATen/core/class_type.h>
#include <c10/core/impl/PyInterpreter.h>
#if __has_include(<c10/core/impl/PyInterpreterHooks.h>)
#include <c10/core/impl/PyInterpreterHooks.h>
#define REPRO_CHECK_ONE_INTERPRETER 1
#endif

#if __has_include(<torch/csrc/distributed/c10d/Types.hpp>)
#include <torch/csrc/distributed/c10d/Types.hpp>
#define REPRO_CHECK_C10D 1
#endif

#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>
#endif

#include <array>
#include <cctype>
#include <sstream>
#include <string_view>

#include "core/text/short_text.h"
#include "core/text/text.h"

namespace repro_check::capture {
namespace {

constexpr auto kTypeCount = static_cast<std::size_t>(c10::ScalarType::NumOptions);

/// By LibTorch's own words, because the enumerators of newer types do not exist in older releases.
std::array<core::Dtype, kTypeCount> make_dtype_table() {
  std::array<core::Dtype, kTypeCount> table{};
  for (std::size_t i = 0; i < kTypeCount; ++i) {
    const std::string_view word = c10::toString(static_cast<c10::ScalarType>(i));
    for (const core::DtypeRow& row : core::kDtypes) {
      if (row.torch == word) table[i] = row.dtype;
    }
  }
  return table;
}

/// `SparseCsr` to `sparse_csr`.
std::string snake_case(std::string_view words) {
  std::string out;
  for (const char c : words) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !out.empty()) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

/// Newer releases have one in a process.
template <class Impl>
c10::impl::PyInterpreter* interpreter_of(Impl& impl) {
  if constexpr (requires { impl.pyobj_interpreter(); }) {
    return impl.pyobj_interpreter();
  } else if constexpr (requires { impl.pyobj_slot()->pyobj_interpreter(); }) {
    return impl.pyobj_slot()->pyobj_interpreter();
  } else {
#ifdef REPRO_CHECK_ONE_INTERPRETER
    return c10::impl::getGlobalPyInterpreter();
#else
    return nullptr;
#endif
  }
}

template <typename Impl>
const void* object_of(Impl& impl) {
  if constexpr (requires { impl.pyobj_slot()->load_pyobj(); }) {
    return impl.pyobj_slot()->load_pyobj();
  } else if constexpr (requires { impl.pyobj_slot()->_unchecked_untagged_pyobj(); }) {
    return impl.pyobj_slot()->_unchecked_untagged_pyobj();
  } else {
    return nullptr;
  }
}

bool is_of_python_class(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(c10::DispatchKey::Python)) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return !impl.unsafe_storage() || !impl.unsafe_storage().device().is_meta();
}

c10::impl::PyInterpreter* interpreter_in(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return is_of_python_class(tensor) ? interpreter_of(*tensor.unsafeGetTensorImpl()) : nullptr;
  }
  if (!value.isList()) return nullptr;
  for (const c10::IValue& item : value.toListRef()) {
    if (auto* interpreter = interpreter_in(item)) return interpreter;
  }
  return nullptr;
}

}  // namespace

Transformed transformed(const at::Tensor& tensor) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
  Transformed found{tensor, {}};
  for (;;) {
    const at::Tensor outer = found.values;
    std::string transform = "grad";
    if (const auto* batched = at::functorch::maybeGetBatchedImpl(outer)) {
      found.values = batched->value();
      transform = "vmap=" + std::to_string(batched->bdim());
    } else if (const auto* wrapper = at::functorch::maybeGetTensorWrapper(outer)) {
      found.values = wrapper->value();
    } else {
      return found;
    }
    found.transforms += (found.transforms.empty() ? "" : " ") + transform;
  }
#else
  static_cast<void>(tensor);
  return {};
#endif
}

c10::impl::PyInterpreter* python_interpreter(const torch::jit::Stack& stack) {
  for (const c10::IValue& value : stack) {
    if (auto* interpreter = interpreter_in(value)) return interpreter;
  }
  return nullptr;
}

std::optional<const void*> python_object(const at::Tensor& tensor) {
  if (!is_of_python_class(tensor)) return std::nullopt;
  return object_of(*tensor.unsafeGetTensorImpl());
}

core::Dtype dtype_of(c10::ScalarType type) noexcept {
  static const std::array<core::Dtype, kTypeCount> table = make_dtype_table();
  const auto index = static_cast<std::size_t>(type);
  return index < kTypeCount ? table[index] : core::Dtype::kUnknown;
}

std::optional<c10::ScalarType> scalar_type_of(core::Dtype dtype) noexcept {
  for (std::size_t i = 0; i < kTypeCount; ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (dtype != core::Dtype::kUnknown && dtype_of(type) == dtype) return type;
  }
  return std::nullopt;
}

std::string scalar_type_name(c10::ScalarType type) {
  const core::Dtype dtype = dtype_of(type);
  if (dtype != core::Dtype::kUnknown) return std::string(core::dtype_name(dtype));
  return core::lower(c10::toString(type));
}

std::string layout_name(c10::Layout layout) {
  if (layout == c10::Layout::Sparse) return "sparse_coo";
  try {
    std::ostringstream text;
    text << layout;
    return snake_case(text.str());
  } catch (const std::exception&) {
    return "layout_" + std::to_string(static_cast<int>(layout));
  }
}

std::string memory_format_name(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "contiguous_format";
    case c10::MemoryFormat::Preserve:
      return "preserve_format";
    case c10::MemoryFormat::ChannelsLast:
      return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "memory_format_" + std::to_string(static_cast<int>(format));
  }
}

std::string reduce_op_name([[maybe_unused]] const c10::IValue& value) {
#if defined(REPRO_CHECK_C10D)
  if (!value.isObject()) return {};
  const auto type = value.type()->cast<c10::ClassType>();
  const bool is_one = type && type->name() &&
                      type->name()->qualifiedName() == "__torch__.torch.classes.c10d.ReduceOp";
  const auto held = is_one ? value.toObjectRef().getSlot(0) : c10::IValue();
  if (!held.isCapsule() || !held.toCapsule()) return {};
  const c10d::ReduceOp::RedOpType op = static_cast<const c10d::ReduceOp&>(*held.toCapsule());
  return std::string(core::word_at("SUM|AVG|PRODUCT|MIN|MAX|BAND|BOR|BXOR|PREMUL_SUM", op));
#else
  return {};
#endif
}

void device_name(const c10::Device& device, std::string& into) {
  if (device.is_cpu()) {
    core::set_text(into, "cpu");
  } else {
    into = device.str();
  }
}

}  // namespace repro_check::capture
