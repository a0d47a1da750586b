// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/torch_types.h"

#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "dumpers/capture/torch/torch_names.h"
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
  // Quantised numbers come with a scale, and the others have no arithmetic.
  const bool bare = core::is_quantised(dtype) || dtype == core::Dtype::kFloat8E8M0FNU ||
                    dtype == core::Dtype::kFloat4E2M1FNX2;
  return bare ? std::nullopt : capture::scalar_type_of(dtype);
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
