// SPDX-License-Identifier: Apache-2.0
// The record of what a call of the program returned.
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "dumpers/capture/engine/engine.h"
#include "dumpers/capture/engine/returned_leaves.h"
#include "dumpers/capture/engine/value_builder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

/// Records the tensors among what a call returned, once as what is handed out and once as what came
/// of it.
class Engine::ReturnedVisitor final : public TensorVisitor {
 public:
  ReturnedVisitor(Engine& engine, RecordList& tensors) : engine_(engine), tensors_(tensors) {}

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
  if (failed_.load(std::memory_order_relaxed)) return;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    append_returned(value);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Engine::append_returned(const c10::IValue& value) {
  static const auto kInfo = std::make_shared<const core::OperatorInfo>(
      core::OperatorInfo{std::string(core::kReturnedOperator), "", false});
  core::OpRecord record;
  record.index = next_index_++;
  record.op = kInfo;
  record.phase = phase_;
  record.step = step_;
  last_.index = record.index;
  last_.op = record.op.get();
  last_.site = nullptr;
  sink_->enter({.index = record.index, .op = kInfo.get(), .phase = phase_, .step = step_});
  RecordList tensors(record.tensors);
  ReturnedVisitor visitor(*this, tensors);
  for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    core::Argument& argument = record.arguments.emplace_back();
    argument.name = path;
    build_value(leaf, IntegerMeaning::kNumber, path, visitor, argument.value);
  });
  visitor.set_role(core::TensorRole::kOutput);
  for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    build_value(leaf, IntegerMeaning::kNumber, path, visitor, record.results.emplace_back());
  });
  note_raced(record);
  ++counts_.operators;
  ++counts_.returned;
  counts_.tensors += tensors.size();
  sink_->append(record);
}

}  // namespace repro_check::capture
