// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/returned_values.h"

#include <fmt/format.h>
#include <torch/script.h>

#include <cstddef>
#include <span>
#include <sstream>

#include "core/digest/digest.h"
#include "dumpers/capture/engine/returned_leaves.h"

namespace repro_check::torchscript {
namespace {

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

}  // namespace

void add_returned_values(const c10::IValue& value,
                         std::size_t call,
                         std::vector<ReturnedValue>& into) {
  const at::NoGradGuard unseen;
  capture::for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    const std::string name = call == 0 ? path : fmt::format("{}@{}", path, call + 1);
    into.push_back(leaf.isTensor() ? of_tensor(leaf.toTensor(), name) : of_scalar(leaf, name));
  });
}

}  // namespace repro_check::torchscript
