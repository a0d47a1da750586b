// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::capture {

/// Which draw of the run this is: its seed depends on nothing else, so that one draw more or fewer
/// upstream, or a data-dependent number of them, shifts no later one.
struct DrawTicket {
  std::uint32_t lane = 0;
  std::uint64_t ordinal = 0;  ///< how-many-th of the lane
};

/// Draws on the host, in contiguous float32, what a device would draw for itself
/// (determinism.md 3.4). Safe to call from several threads.
class HostRng {
 public:
  explicit HostRng(std::uint64_t seed) : seed_(seed) {}

  /// Carries the call out in place of the operator, results on the stack.
  /// @return the use made of the host's generator; empty when the call cannot be moved (nothing was
  ///         touched then)
  std::optional<core::GeneratorUse> draw(const c10::OperatorHandle& op,
                                         const OperatorPlan& plan,
                                         torch::jit::Stack& stack,
                                         const DrawTicket& ticket);

 private:
  /// The host's stand-in for a generator the model brought itself.
  struct Twin {
    at::Generator original;  ///< held, so that its address stays its own
    std::uint64_t seed = 0;
    std::uint64_t drawn = 0;
  };

  /// Seed and ordinal for a call that names `generator`.
  std::pair<std::uint64_t, std::uint64_t> twin_seed(const at::Generator& generator);

  std::uint64_t seed_;
  std::mutex mutex_;
  std::map<const c10::GeneratorImpl*, Twin> twins_;
};

}  // namespace repro_check::capture
