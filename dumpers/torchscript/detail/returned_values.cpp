// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/returned_values.h"

#include <torch/script.h>

#include <cstddef>
#include <span>
#include <sstream>

#include "core/digest.h"

namespace repro_check::torchscript {
namespace {

/// A model's own structures end; a list that holds itself does not.
constexpr int kDeepest = 64;

core::Digest digest_of_text(const std::string& text) {
  return core::digest_bytes(std::as_bytes(std::span(text)));
}

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes() << ' ' << tensor.layout();
  if (tensor.layout() == at::kStrided) text << ", strides " << tensor.strides();
  if (tensor.is_quantized()) text << ' ' << toString(tensor.qscheme());
  return text.str();
}

/// The elements in row-major order, as a dense tensor of the host.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.is_quantized() ? tensor.int_repr() : tensor;
  const at::Tensor dense = plain.layout() == at::kStrided ? plain : plain.to_dense();
  return dense.resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

ReturnedValue of_tensor(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) return {name, "undefined tensor", {}};
  if (tensor.is_meta()) return {name, describe(tensor) + " meta", {}};
  const at::Tensor host = on_host(tensor.detach());
  const auto* bytes = static_cast<const std::byte*>(host.data_ptr());
  return {name, describe(tensor), core::digest_bytes({bytes, host.nbytes()})};
}

ReturnedValue of_scalar(const c10::IValue& value, const std::string& name) {
  std::ostringstream text;
  if (value.isDouble()) {
    text << std::hexfloat << value.toDouble();  // shows every bit
  } else {
    text << value;
  }
  return {name, value.tagKind(), digest_of_text(text.str())};
}

void add(const c10::IValue& value,
         const std::string& name,
         int depth,
         std::vector<ReturnedValue>& into) {
  const auto inside = [&](const c10::IValue& item, const std::string& key) {
    add(item, name + "." + key, depth + 1, into);
  };
  if (value.isTensor()) {
    into.push_back(of_tensor(value.toTensor(), name));
  } else if (depth >= kDeepest) {
    into.push_back({name, std::string(value.tagKind()) + ", too deep to look into", {}});
  } else if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    for (std::size_t i = 0; i < items.size(); ++i) inside(items[i], std::to_string(i));
  } else if (value.isList()) {
    const auto items = value.toListRef();
    for (std::size_t i = 0; i < items.size(); ++i) inside(items[i], std::to_string(i));
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      std::ostringstream key;
      key << entry.key();
      inside(entry.value(), key.str());
    }
  } else if (value.isObject()) {
    const auto object = value.toObject();
    for (std::size_t i = 0; i < object->type()->numAttributes(); ++i) {
      inside(object->getSlot(i), object->type()->getAttributeName(i));
    }
  } else {
    into.push_back(of_scalar(value, name));
  }
}

}  // namespace

void add_returned_values(const c10::IValue& value,
                         const std::string& name,
                         std::vector<ReturnedValue>& into) {
  const at::NoGradGuard unseen;
  add(value, name, 0, into);
}

}  // namespace repro_check::torchscript
