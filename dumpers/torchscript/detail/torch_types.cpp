// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/torch_types.h"

#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "dumpers/torchscript/detail/exception_text.h"

namespace repro_check::torchscript {
namespace {

std::string present_devices() {
  std::string list = "cpu";
  using Type = c10::DeviceType;
  for (const auto& [type, name] : {std::pair{Type::CUDA, "cuda"},
                                   std::pair{Type::XPU, "xpu"},
                                   std::pair{Type::PrivateUse1, "privateuseone"}}) {
    const c10::impl::DeviceGuardImplInterface* devices =
        c10::impl::device_guard_impl_registry[static_cast<std::size_t>(type)].load();
    const int count = devices == nullptr ? 0 : int{devices->deviceCount()};
    for (int i = 0; i < count; ++i) list += std::string(", ") + name + ":" + std::to_string(i);
  }
  return list;
}

}  // namespace

std::optional<at::ScalarType> to_scalar_type(core::Dtype dtype) noexcept {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kBool:
      return at::kBool;
    case Dtype::kUInt8:
      return at::kByte;
    case Dtype::kInt8:
      return at::kChar;
    case Dtype::kInt16:
      return at::kShort;
    case Dtype::kInt32:
      return at::kInt;
    case Dtype::kInt64:
      return at::kLong;
    case Dtype::kFloat16:
      return at::kHalf;
    case Dtype::kBFloat16:
      return at::kBFloat16;
    case Dtype::kFloat32:
      return at::kFloat;
    case Dtype::kFloat64:
      return at::kDouble;
    case Dtype::kComplex32:
      return at::kComplexHalf;
    case Dtype::kComplex64:
      return at::kComplexFloat;
    case Dtype::kComplex128:
      return at::kComplexDouble;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case Dtype::kUInt16:
      return at::ScalarType::UInt16;
    case Dtype::kUInt32:
      return at::ScalarType::UInt32;
    case Dtype::kUInt64:
      return at::ScalarType::UInt64;
#endif
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
    case Dtype::kFloat8E4M3FN:
      return at::ScalarType::Float8_e4m3fn;
    case Dtype::kFloat8E5M2:
      return at::ScalarType::Float8_e5m2;
    case Dtype::kFloat8E4M3FNUZ:
      return at::ScalarType::Float8_e4m3fnuz;
    case Dtype::kFloat8E5M2FNUZ:
      return at::ScalarType::Float8_e5m2fnuz;
#endif
    default:
      return std::nullopt;
  }
}

at::Tensor to_tensor(const core::HostTensor& host, const std::string& what) {
  const auto type = to_scalar_type(host.dtype);
  if (!type) {
    throw core::Error(core::ErrorKind::kUsage,
                      what + ": dtype " + std::string(core::dtype_name(host.dtype)) +
                          " cannot be given to a model under LibTorch " TORCH_VERSION,
                      "convert the tensor, or use a recorder built against a newer LibTorch");
  }
  at::Tensor tensor = at::empty(host.shape, at::TensorOptions().dtype(*type));
  if (!host.bytes.empty()) std::memcpy(tensor.data_ptr(), host.bytes.data(), host.bytes.size());
  return tensor;
}

at::Device parse_device(const std::string& text) {
  std::optional<at::Device> device;
  std::string reason;
  try {
    device = at::Device(text);
    if (device->type() != c10::DeviceType::Meta) {
      // The only question that every backend answers alike is whether it can hold a number.
      at::empty({1}, at::TensorOptions().device(*device)).fill_(0);
      return *device;
    }
    reason = "meta tensors hold no values, so there is nothing to record";
  } catch (const std::exception& error) {
    reason = first_useful_line(error);
  }
  const std::string problem = device ? " is not available: " : " is not a device: ";
  throw core::Error(core::ErrorKind::kUsage,
                    "device \"" + text + "\"" + problem + reason,
                    "devices of this recorder: " + present_devices());
}

}  // namespace repro_check::torchscript
