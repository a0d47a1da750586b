// SPDX-License-Identifier: Apache-2.0
// Records of values that no operator made: what a call returned, what a front end names.
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/trace/lane.h"
#include "dumpers/capture/engine/engine.h"
#include "dumpers/capture/engine/returned_leaves.h"
#include "dumpers/capture/engine/value_builder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

/// Records the tensors among named values, once as what they are and once as what came of it.
class Engine::ValueVisitor final : public TensorVisitor {
 public:
  ValueVisitor(Engine& engine, RecordList& tensors) : engine_(engine), tensors_(tensors) {}

  /// As an input it is what it was to every operator; what came out of the program is a value,
  /// whoever wrote it.
  void set_role(core::TensorRole role) {
    order_.role = role;
    order_.hands_out = role == core::TensorRole::kOutput;
  }

  std::uint32_t visit(const at::Tensor& tensor, const std::string& slot) override {
    return static_cast<std::uint32_t>(engine_.tensors_.add(tensor, slot, order_, tensors_));
  }

  std::optional<c10::IValue> state_of(const c10::IValue& object) override {
    return engine_.packed_.state_of(object);
  }

 private:
  Engine& engine_;
  RecordList& tensors_;
  RecordingOrder order_;
};

void Engine::record_returned(const c10::IValue& value) {
  NamedValues values;
  for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    values.emplace_back(path, leaf);
  });
  append_values(std::string(core::kReturnedOperator), values, {}, core::kMainLane);
}

void Engine::record_values(const std::string& name, const NamedValues& values) {
  append_values(name, values, place(), lane_number());
}

void Engine::append_values(const std::string& name,
                           const NamedValues& values,
                           const Place& place,
                           std::uint32_t lane) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    core::OpRecord record;
    record.index = next_index_++;
    std::shared_ptr<const core::OperatorInfo>& op = value_operators_[name];
    if (!op) op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
    record.op = op;
    record.site = place.site;
    record.phase = place.phase.value_or(phase_);
    record.step = step_;
    record.lane = lane;
    last_ = {false, record.index, record.op.get(), record.site};
    sink_->enter({.index = record.index,
                  .op = record.op.get(),
                  .site = record.site.get(),
                  .phase = record.phase,
                  .step = step_,
                  .lane = lane});
    RecordList tensors(record.tensors);
    ValueVisitor visitor(*this, tensors);
    for (const auto& [path, value] : values) {
      core::Argument& argument = record.arguments.emplace_back();
      argument.name = path;
      build_value(value, IntegerMeaning::kNumber, path, visitor, argument.value);
    }
    visitor.set_role(core::TensorRole::kOutput);
    for (const auto& [path, value] : values) {
      build_value(value, IntegerMeaning::kNumber, path, visitor, record.results.emplace_back());
    }
    note_raced(record);
    ++counts_.operators;
    if (core::is_returned(record)) ++counts_.returned;
    counts_.tensors += tensors.size();
    sink_->append(record);
  } catch (...) {
    fail(std::current_exception());
  }
}

}  // namespace repro_check::capture
