// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/repeated_call.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/trace/record_tensors.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/replay/restored_generator.h"

namespace repro_check::replay {
namespace {

/// Moves a generator for as long as it lives.
class MovedGenerator : core::Pinned {
 public:
  /// @param generator  may be undefined
  MovedGenerator(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)) {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    found_ = generator_.get_state();
    generator_.set_state(state);
  }
  [[nodiscard]] at::Tensor state() {
    if (!generator_.defined()) return {};
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return generator_.get_state();
  }
  ~MovedGenerator() {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(found_);
  }

 private:
  at::Generator generator_;
  at::Tensor found_;
};

}  // namespace

RepeatedCall::RepeatedCall(const core::DumpSource& dump,
                           std::uint64_t op,
                           const RebuildOptions& options,
                           const GeneratorState& before)
    : record_(core::require_replayable(dump, op)),
      op_(plans_, record_),
      keeps_dtypes_(!options.float64),
      sink_(dump),
      capture_({}, sink_, nullptr) {
  for (const core::Substitution& change : record_.substitutions) {
    if (change.argument != "rng") continue;
    cannot(
        fmt::format("op {} was not executed: its numbers were drawn on the host (rng: host)", op),
        "record with \"rng\": \"device\" to replay it");
  }
  arguments_.emplace(dump, record_, op_.written_tensors(record_), options);
  if (!record_.generator) return;
  if (options.device && options.device->str() != c10::Device(record_.generator->device).str()) {
    cannot(fmt::format("op {} drew random numbers on {}: {} draws others",
                       op,
                       record_.generator->device,
                       options.device->str()),
           "replay it where it was recorded");
  }
  start_ = before ? before(record_) : restore_generator(dump, record_).get_state();
  generator_ = *capture::default_generator(c10::Device(record_.generator->device));
}

const CallSink& RepeatedCall::run(const ArgumentChange& change) {
  call(change);
  if (!is_tried_ && keeps_dtypes_ && gave_other_dtypes() && arguments_->take_for_numbers()) {
    call(change);
  }
  is_tried_ = true;
  return sink_;
}

bool RepeatedCall::gave_other_dtypes() const {
  return std::ranges::any_of(sink_.record.tensors, [&](const core::TensorRecord& made) {
    const auto* recorded = core::find_tensor(record_, made.role, made.slot);
    return core::is_output(made) && recorded != nullptr && recorded->dtype != made.dtype;
  });
}

void RepeatedCall::call(const ArgumentChange& change) {
  arguments_->restart(change);
  sink_.clear();
  torch::jit::Stack stack = op_.arguments(record_, arguments_->source(generator_));
  {
    MovedGenerator moved(generator_, start_);
    const capture::CallModesPin modes(record_.modes);
    const capture::Capture::Scope scope(capture_);
    try {
      op_.call(stack);
    } catch (const std::exception& error) {
      throw core::run_failed(fmt::format(
          "op {} {}: {}", record_.index, record_.op->full_name(), capture::reason_of(error)));
    }
    end_ = moved.state();
  }
  capture_.rethrow_failure();
}

std::vector<std::string> RepeatedCall::notes() const {
  std::vector<std::string> notes;
  for (const core::TensorRecord& tensor : record_.tensors) {
    if (tensor.role != core::TensorRole::kInput) continue;
    if (tensor.state != core::ContentState::kUninitialised) continue;
    notes.push_back(
        fmt::format("argument {} was memory that was never written: here it is filled with NaN, "
                    "integers with 0",
                    tensor.slot));
  }
  return notes;
}

}  // namespace repro_check::replay
