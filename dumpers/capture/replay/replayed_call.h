// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/dump_source.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/replay/replayed_value.h"

namespace repro_check::capture {

/// What one call left behind.
struct CallResults {
  /// By slot, as a record has them: results first, then arguments that were written.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::vector<core::Value> values;  ///< of the results; a TensorSlot is a position in `tensors`
};

/// One recorded call, ready to be made any number of times.
class ReplayedCall {
 public:
  /// @throws core::Error as capture::replay()
  ReplayedCall(const core::DumpSource& dump, std::uint64_t op, const RebuildOptions& options);

  /// From the same inputs and the same place of the generator each time. The tensors may alias what
  /// the next call begins with: they are to be read before it.
  CallResults run();

  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }
  /// What of the call is not as recorded.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  void find_operator();
  [[nodiscard]] std::vector<bool> written_tensors() const;
  [[nodiscard]] torch::jit::Stack arguments() const;
  [[nodiscard]] const core::Value* recorded(const std::string& name) const;
  CallResults results_of(const torch::jit::Stack& stack, const torch::jit::Stack& given) const;

  core::OpRecord record_;
  RebuildOptions options_;
  std::optional<c10::OperatorHandle> op_;
  OperatorPlans plans_{{}, {}};
  OperatorPlan* plan_ = nullptr;
  std::optional<ReplayedTensors> tensors_;
  at::Generator generator_;  ///< as it stood before the call; undefined = nothing was drawn
  at::Tensor start_;         ///< its state
};

}  // namespace repro_check::capture
