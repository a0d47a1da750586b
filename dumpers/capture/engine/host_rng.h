// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/generators/generator_places.h"

namespace repro_check::capture {

/// Draws on the host, in contiguous float32, what a device would draw for itself
/// (docs/DECISIONS.md, host). What a call draws depends on nothing but where its generator stands,
/// so that who sets a generator back has the same numbers again, and it moves that by one place:
/// how many numbers a call takes, which may depend on data, shifts none of a later one. Safe to
/// call from several threads.
class HostRng {
 public:
  struct Drawn {
    core::GeneratorUse use;
    std::uint64_t seed = 0;  ///< of the host's generator for this call
  };

  /// Carries the call out in place of the operator, results on the stack.
  /// @param generator   that the operator would draw from
  /// @param of_process  it is a default one, of a device
  /// @return empty when the call cannot be moved (nothing was touched then)
  std::optional<Drawn> draw(const c10::OperatorHandle& op,
                            const OperatorPlan& plan,
                            torch::jit::Stack& stack,
                            const at::Generator& generator,
                            bool of_process);

  /// Whether draw() has moved the generator to where it stands, or somebody is about to move it:
  /// never waits, as whoever holds it may have called the one who asks.
  bool has_moved(const at::Generator& generator);

 private:
  std::mutex mutex_;
  GeneratorPlaces places_;
};

}  // namespace repro_check::capture
