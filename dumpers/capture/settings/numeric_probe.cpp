// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/numeric_probe.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <utility>

#include "core/digest/digest.h"

namespace repro_check::capture {
namespace {

/// Multiples of 1/256 between -2 and 2: the same bits everywhere, without a generator or libm.
at::Tensor numbers(at::IntArrayRef shape, const c10::Device& device) {
  constexpr std::int64_t kStep = 7919;
  constexpr std::int64_t kModulus = 1021;
  constexpr double kScale = 1.0 / 256;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  const at::Tensor steps = at::arange(count, at::TensorOptions(at::kLong)).mul(kStep);
  const at::Tensor whole = steps.remainder(kModulus).sub(kModulus / 2);
  return whole.to(at::kFloat).mul(kScale).reshape(shape).to(device);
}

std::string digest_of(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.to(at::kCPU).contiguous();
  return core::to_hex(core::digest_bytes(
      std::span(static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes())));
}

}  // namespace

std::vector<core::EnvironmentFact> probe_numbers(const std::string& device) {
  const c10::NoGradGuard no_grad;
  const c10::Device where(device);
  // Large enough to be split over threads, small enough for a few milliseconds.
  using Computation = std::function<at::Tensor()>;
  const std::vector<std::pair<std::string, Computation>> computations{
      {"probe.convolution",
       [&] {
         return at::conv2d(numbers({2, 16, 32, 32}, where), numbers({32, 16, 3, 3}, where));
       }},
      {"probe.matmul",
       [&] {
         return at::matmul(numbers({192, 320}, where), numbers({320, 256}, where));
       }},
      {"probe.softmax",
       [&] {
         return at::softmax(numbers({64, 1000}, where), 1);
       }},
      {"probe.exp", [&] { return at::exp(numbers({65537}, where)); }},
      {"probe.sum", [&] { return at::sum(numbers({262147}, where)); }},
  };
  std::vector<core::EnvironmentFact> facts;
  for (const auto& [name, compute] : computations) {
    std::string value = "unavailable";
    try {
      // The first call of a vector function of MKL has been seen to take another kernel in one of
      // its threads; the second is the one that a platform repeats.
      static_cast<void>(compute());
      value = digest_of(compute());
    } catch (const std::exception&) {
      // Some device has no such kernel. That it has none is part of what the device is.
    }
    facts.push_back({name, std::move(value)});
  }
  return facts;
}

}  // namespace repro_check::capture
