// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/tensors.h"

#include <ATen/Functions.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/system/pinned.h"
#include "dumpers/capture/torch/torch_names.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/model_file.h"
#include "dumpers/torchscript/random_numbers.h"

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
  // No input of a model is made of these.
  const bool is_packed =
      dtype == core::Dtype::kFloat8E8M0FNU || dtype == core::Dtype::kFloat4E2M1FNX2;
  if (is_packed || core::is_quantised(dtype)) return std::nullopt;
  return capture::scalar_type_of(dtype);
}

at::Tensor to_tensor(const core::HostTensor& host, const std::string& what) {
  const auto type = to_scalar_type(host.dtype);
  if (!type) {
    throw usage_error(what + ": dtype " + std::string(core::dtype_name(host.dtype)) +
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
  throw usage_error("device \"" + text + "\"" + problem + reason,
                    "devices of this recorder: " + present_devices());
}

namespace {

using configs::Distribution;
using configs::GeneratedInput;

constexpr double kInt64Bound = 0x1p63;

std::int64_t count_elements(const GeneratedInput& input, const std::string& where) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : input.shape) {
    if (size < 0)
      throw usage_error(where + ": a shape has no negative sizes", "give sizes of 0 and more");
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return 0;
  const std::size_t width = core::element_size(input.dtype);
  std::int64_t bytes = 0;
  if (overflow || __builtin_mul_overflow(count, static_cast<std::int64_t>(width), &bytes)) {
    throw usage_error(where + ": the shape has more elements than there are addresses",
                      "make it smaller");
  }
  return count;
}

double checked(double value, const std::string& where, const char* name) {
  if (!std::isfinite(value)) {
    throw usage_error(where + ": " + name + " must be a finite number", "give a number");
  }
  return value;
}

/// An integer that a double of the configuration holds exactly.
std::int64_t whole(double value, const std::string& where, const char* name) {
  if (std::floor(value) != value || value < -kInt64Bound || value >= kInt64Bound) {
    throw usage_error(where + ": " + name + " must be a whole number of 64 bits",
                      "give an integer, or use \"uniform\"");
  }
  return static_cast<std::int64_t>(value);
}

/// Largest value of an integer dtype; empty for the others.
std::optional<std::pair<double, double>> integer_range(core::Dtype dtype) {
  if (!core::is_integral(dtype)) return std::nullopt;
  const auto bits = static_cast<int>(core::element_size(dtype) * 8);
  const bool is_signed = core::dtype_name(dtype).front() == 'i';
  return is_signed ? std::pair{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1)}
                   : std::pair{0.0, std::ldexp(1, bits)};
}

void check_range(core::Dtype dtype, double first, double end, const std::string& where) {
  const auto range = integer_range(dtype);
  if (range && (first < range->first || end > range->second)) {
    throw usage_error(where + ": values from " + std::to_string(static_cast<std::int64_t>(first)) +
                          " do not fit " + std::string(core::dtype_name(dtype)),
                      "narrow low and high, or take a wider dtype");
  }
}

at::Tensor make_integers(const GeneratedInput& input,
                         std::int64_t count,
                         const std::string& where) {
  at::Tensor values = at::empty({count}, at::kLong);
  auto* data = values.data_ptr<std::int64_t>();
  const std::int64_t low = whole(input.low, where, "low");
  if (input.distribution == Distribution::kArange) {
    check_range(input.dtype, input.low, input.low + static_cast<double>(count), where);
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + i;
    return values;
  }
  const std::int64_t high = whole(input.high, where, "high");
  if (low >= high)
    throw usage_error(where + ": low must be below high", "high itself is never drawn");
  check_range(input.dtype, input.low, input.high, where);
  RandomNumbers random(input.seed);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + random.below(range));
  }
  return values;
}

at::Tensor make_reals(const GeneratedInput& input, std::int64_t count, const std::string& where) {
  at::Tensor values = at::empty({count}, at::kDouble);
  auto* data = values.data_ptr<double>();
  RandomNumbers random(input.seed);
  if (input.distribution == Distribution::kNormal) {
    const double mean = checked(input.mean, where, "mean");
    const double std = checked(input.std, where, "std");
    for (std::int64_t i = 0; i < count; ++i) data[i] = mean + std * random.normal();
    return values;
  }
  const double low = checked(input.low, where, "low");
  const double width = checked(checked(input.high, where, "high") - low, where, "high - low");
  if (input.distribution == Distribution::kArange) {
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + static_cast<double>(i);
    return values;
  }
  if (width <= 0)
    throw usage_error(where + ": low must be below high", "high itself is never drawn");
  for (std::int64_t i = 0; i < count; ++i) data[i] = low + width * random.uniform();
  return values;
}

/// Arithmetic as the machine has it of itself, whatever the run flushes: one configuration gives
/// one input under every setting.
class PlainArithmetic : core::Pinned {
 public:
  PlainArithmetic() {
    std::fegetenv(&kept_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&kept_); }

 private:
  std::fenv_t kept_{};
};

/// Rounding to a short dtype may reach the upper bound, which is promised never to appear.
void keep_below_high(at::Tensor& values, const GeneratedInput& input) {
  if (input.distribution != Distribution::kUniform || !values.is_floating_point()) return;
  values.masked_fill_(values.to(at::kDouble).ge(input.high), input.low);
}

}  // namespace

at::Tensor generate_tensor(const GeneratedInput& input, const std::string& where) {
  const PlainArithmetic plain;
  const auto type = to_scalar_type(input.dtype);
  if (!type) {
    throw usage_error(where + ": dtype " + std::string(core::dtype_name(input.dtype)) +
                          " cannot be generated under LibTorch " TORCH_VERSION,
                      "take another dtype, or give the tensor as a file");
  }
  const std::int64_t count = count_elements(input, where);
  const Distribution kind = input.distribution;
  const bool constant = kind == Distribution::kZeros || kind == Distribution::kOnes;
  if (constant) {
    const double value = kind == Distribution::kOnes ? 1 : 0;
    return at::full({}, value, at::kDouble).to(*type).expand(input.shape).contiguous();
  }
  const bool integers = kind == Distribution::kRandint ||
                        (kind == Distribution::kArange && core::is_integral(input.dtype));
  const bool complex = core::is_complex(input.dtype);
  const std::int64_t drawn = complex ? 2 * count : count;
  at::Tensor values =
      integers ? make_integers(input, drawn, where) : make_reals(input, drawn, where);
  if (complex) {
    values = at::view_as_complex(values.to(at::kDouble).reshape({count, 2}));
  } else if (core::element_size(input.dtype) < 4) {
    // Through float32 on every path: some releases round a float64 to 16 bits in two steps.
    values = integers ? values : values.to(at::kFloat);
  }
  values = values.to(*type).reshape(input.shape);
  keep_below_high(values, input);
  return values;
}

namespace {

const std::string kSaveHint =
    "save the tensor alone, in Python: torch.save(tensor.detach().cpu(), path); or as .npy";

/// What a reader of ours complains about, with the place in the configuration in front.
template <typename Read>
auto at_pointer(const std::string& pointer, Read&& read) {
  try {
    return read();
  } catch (const core::Error& error) {
    throw core::Error(error.kind(), pointer + ": " + error.what(), error.hint());
  }
}

std::vector<char> read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw usage_error(file.string() + ": cannot be read", "check its permissions");
  return bytes;
}

at::Tensor read_saved(const std::filesystem::path& file) {
  const FileKind kind = identify_file(file);
  if (kind != FileKind::kSavedObject) {
    throw usage_error(file.string() + ": not a tensor written by torch.save but " +
                          std::string(describe_kind(kind)),
                      kSaveHint);
  }
  c10::IValue value;
  try {
    value = torch::jit::pickle_load(read_all(file));
  } catch (const std::exception& error) {
    throw usage_error(file.string() + ": holds something else than one plain tensor (" +
                          first_useful_line(error) + ")",
                      kSaveHint);
  }
  if (!value.isTensor()) {
    throw usage_error(file.string() + ": holds a " + value.type()->str() + ", not a tensor",
                      kSaveHint);
  }
  const at::Tensor tensor = value.toTensor();
  if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu()) {
    throw usage_error(file.string() + ": holds a tensor that is not a dense one on the CPU",
                      kSaveHint);
  }
  // A copy of its own, in the same strides: they can decide which kernel runs.
  return tensor.detach().clone();
}

}  // namespace

std::optional<at::Tensor> read_tensor(const configs::InputSpec& input, const Hdf5Reader& hdf5) {
  const std::string& pointer = input.pointer;
  if (const auto* generated = std::get_if<configs::GeneratedInput>(&input.source)) {
    return generate_tensor(*generated, pointer);
  }
  if (const auto* file = std::get_if<configs::FileInput>(&input.source)) {
    using Kind = configs::FileInput::Kind;
    return at_pointer(pointer, [&] {
      if (file->kind == Kind::kTorch) return read_saved(file->path);
      if (file->kind == Kind::kNpy)
        return to_tensor(core::read_npy(file->path), file->path.string());
      if (!hdf5) throw usage_error("HDF5 files cannot be read here", "give the tensor as .npy");
      return to_tensor(hdf5(file->path, file->dataset), file->path.string());
    });
  }
  return std::nullopt;
}

}  // namespace repro_check::torchscript
