// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/torchscript/instrument.h"

namespace repro_check::torchscript {

/// Holds TorchScript's executor still on the calling thread, which must be the one that runs the
/// model: no optimisation, no profiling (which makes the second run another program than the
/// first), no fusion, no autocast pass. With `optimize` nothing is changed, only read. Puts
/// everything back when destroyed.
class ExecutorPin : core::Pinned {
 public:
  explicit ExecutorPin(bool optimize);
  ~ExecutorPin();

  /// As found before and as they are now: `jit.optimize`, `jit.profiling`, ...
  [[nodiscard]] std::vector<core::Setting> settings() const;

 private:
  std::vector<std::size_t> found_;  ///< a value of each knob
  bool pinned_;
};

/// Runs one method of a module, and knows at any moment where in the model it stands.
class MethodRunner final : public capture::SiteProvider {
 public:
  /// @param optimize  run the method itself through LibTorch's executor, for auditing that; the
  ///                  place is then what the interpreter's call stack says
  /// @param mode      what the modules were set to, to warn of operators that it does not reach
  MethodRunner(torch::jit::Module module,
               torch::jit::Method method,
               bool optimize,
               configs::ModelMode mode);

  /// @param inputs  checked against the schema, without self
  /// @throws whatever LibTorch throws
  c10::IValue run(std::vector<c10::IValue> inputs);

  std::shared_ptr<const core::CallSite> current_site() override;
  /// LibTorch compiles a method when it is called, before its interpreter begins.
  [[nodiscard]] bool runs_model() const override;
  [[nodiscard]] bool fills_memory() const override;

  /// Where the model stands when that is not at the operator last asked for: at a `raise`, at a
  /// list index out of range. Null when it is, or when nobody knows.
  std::shared_ptr<const core::CallSite> place_between_operators();

  /// What the model does that makes recordings of it doubtful, for the manifest.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  c10::IValue run_graph(const torch::jit::Code& code, torch::jit::Stack stack);
  torch::jit::Code prepare(torch::jit::Function& function);
  void prepare_all();
  void mark_all_lanes();
  void warn(const InstrumentedGraph& graph);

  torch::jit::Module module_;
  ModulePaths paths_;
  torch::jit::Method method_;
  bool optimize_;
  configs::ModelMode mode_;
  SiteTable sites_;
  torch::jit::Code code_;
  std::vector<torch::jit::Code> pre_hooks_;
  std::vector<torch::jit::Code> hooks_;
  std::vector<std::string> warnings_;
  std::atomic<std::int64_t> last_asked_;
  std::int64_t stopped_at_;  ///< where the run was when it raised
};

/// What went wrong in the model, where in it, and how to mend it. To be called on the thread that
/// ran the model, right where the exception was caught.
/// @param cast  the dtype that weights and inputs were cast to
core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner,
                        const std::optional<core::Dtype>& cast);

}  // namespace repro_check::torchscript
