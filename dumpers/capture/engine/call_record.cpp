// SPDX-License-Identifier: Apache-2.0
// The record of one call: its head and inputs before the operator runs, its outputs after.
// How a call ends: what it has written is noted, and its record goes to the sink.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

/// Whether this call of batch or instance norm updates its running statistics.
bool updates_running_stats(const OperatorPlan& plan, const c10::IValue* arguments) {
  if (plan.running_stats.empty()) return false;
  if (plan.training_flags.empty()) return true;
  return std::any_of(
      plan.training_flags.begin(), plan.training_flags.end(), [&](std::size_t position) {
        return arguments[position].isBool() && arguments[position].toBool();
      });
}

/// The generator this call would draw from.
const at::Generator* generator_of(const OperatorPlan& plan,
                                  const c10::IValue* arguments,
                                  at::Generator& given) {
  if (plan.generator_argument >= 0) {
    const c10::IValue& argument = arguments[plan.generator_argument];
    if (argument.isGenerator()) {
      given = argument.toGenerator();
      return &given;
    }
  }
  if (!plan.info->seeded) return default_generator(c10::kCPU);
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const c10::IValue& argument = arguments[i];
    if (argument.isTensor() && argument.toTensor().defined()) {
      return default_generator(argument.toTensor().device());
    }
    if (argument.isDevice()) return default_generator(argument.toDevice());
  }
  return default_generator(c10::kCPU);
}

}  // namespace

void Frame::watch(const at::Tensor& tensor, std::int64_t version, std::size_t index) {
  const core::ContentState state = tensors[index].state;
  const bool read = state == core::ContentState::kHashed || state == core::ContentState::kComposite;
  if (version >= 0 && read) watched.push_back({tensor.unsafeGetTensorImpl(), version, index});
}

void Frame::settle_watch() {
  for (const WatchedArgument& argument : watched) {
    core::InputWatch& watch = tensors[argument.record].watch;
    if (watch == core::InputWatch::kMoved) continue;
    const bool moved = version_of(*argument.tensor) != argument.version;
    watch = moved ? core::InputWatch::kMoved : core::InputWatch::kSteady;
  }
}

/// Records the tensors among the results, and settles whose writing made them.
class Capture::OutputVisitor {
 public:
  OutputVisitor(Capture& capture, Frame& frame) : capture_(capture), frame_(frame) {
    order_.role = core::TensorRole::kOutput;
    order_.excluded = frame.excluded;
    order_.keep_bytes = frame.keep_bytes;
    order_.reads = !frame.plan->view;
    order_.filled_next = frame.filled;
    order_.first_inner = frame.first_inner;
  }

  void set_result(const ResultPlan& result) { result_ = &result; }

  std::uint32_t operator()(const at::Tensor& tensor, const std::string& slot) {
    if (!tensor.defined()) return add(tensor, slot);
    if (!frame_.written.empty()) seen_.push_back(tensor.unsafeGetTensorImpl());
    bool same_as_input = false;
    for_each_storage(tensor, [&](const c10::Storage& storage) {
      same_as_input = !note_storage(storage) || same_as_input;
    });
    // The schema does not say that this is an argument handed back: trust only the content.
    order_.verify = same_as_input && !frame_.excluded;
    const std::uint32_t index = add(tensor, slot);
    order_.verify = false;
    if (same_as_input && !capture_.tensors_.take_stale().empty()) {
      for_each_storage(tensor, [&](const c10::Storage& storage) {
        StorageEntry& entry = capture_.tensors_.storages().find(storage);
        entry.writer = own_index();
        entry.forget_names();
      });
      frame_.tensors[index].producer = own_index();
      frame_.tensors[index].name.clear();
    }
    return index;
  }

  /// Arguments that were written and are not among the results.
  void add_written() {
    if (frame_.plan->effect == StorageEffect::kMetadata) return;
    for (const WrittenArgument& written : frame_.written) {
      if (std::find(seen_.begin(), seen_.end(), written.tensor.unsafeGetTensorImpl()) ==
          seen_.end()) {
        add(written.tensor, written.slot);
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t own_index() const {
    return static_cast<std::int64_t>(frame_.record.index);
  }

  std::uint32_t add(const at::Tensor& tensor, const std::string& slot) {
    return static_cast<std::uint32_t>(capture_.tensors_.add(tensor, slot, order_, frame_.tensors));
  }

  /// @return false when the storage is an argument's and the schema is silent about it
  bool note_storage(const c10::Storage& storage) {
    const auto& inputs = frame_.input_storages;
    const bool is_input =
        std::find(inputs.begin(), inputs.end(), storage.unsafeGetStorageImpl()) != inputs.end();
    // `set_` shows what a storage already holds.
    if (is_input || frame_.plan->effect == StorageEffect::kMetadata) return result_->aliases;
    StorageEntry& entry = capture_.tensors_.storages().find(storage);
    entry.written_by(own_index());
    if (frame_.plan->effect == StorageEffect::kFresh && !frame_.filled) {
      entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
      // What a kernel allocates for itself it may also write without an operator.
      entry.follows_writes = frame_.record.depth == 0;
    }
    return true;
  }

  Capture& capture_;
  Frame& frame_;
  const ResultPlan* result_ = nullptr;
  RecordingOrder order_;
  std::vector<const c10::TensorImpl*> seen_;
};

std::unique_ptr<Frame> Capture::begin(const Call& call,
                                      OperatorPlan& plan,
                                      const ThreadState& thread,
                                      std::vector<core::Substitution> noted) noexcept {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  std::unique_ptr<Frame> frame;
  try {
    const Place here = place();
    const bool filled = plan.effect == StorageEffect::kFresh && thread.open.empty() &&
                        sites_ != nullptr && sites_->fills_memory();
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      append_raised();
      frame = take_frame(plan);
      fill_head(*frame, thread, std::move(noted), here);
      frame->filled = filled;
      fill_inputs(call, *frame);
    } catch (...) {
      fail(std::current_exception());
      return nullptr;
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail(std::current_exception());
    return nullptr;
  }
  at::Generator given;
  take_snapshot(generator_of(plan, arguments_of(plan, call.stack), given), frame->before);
  frame->settle_watch();
  frame->started = std::chrono::steady_clock::now();
  return frame;
}

std::unique_ptr<Frame> Capture::take_frame(OperatorPlan& plan) {
  if (!plan.idle.empty()) {
    std::unique_ptr<Frame> frame = std::move(plan.idle.back());
    plan.idle.pop_back();
    return frame;
  }
  auto frame = std::make_unique<Frame>();
  frame->plan = &plan;
  frame->record.op = plan.info;
  for (const ArgumentPlan& argument : plan.arguments) {
    frame->record.arguments.push_back({argument.name, {}});
  }
  return frame;
}

void Capture::fill_head(Frame& frame,
                        const ThreadState& thread,
                        std::vector<core::Substitution> noted,
                        const Place& place) {
  core::OpRecord& record = frame.record;
  number(record, place, lane_number());
  record.depth = static_cast<std::uint32_t>(thread.open.size());
  record.parent =
      thread.open.empty() ? -1 : static_cast<std::int64_t>(thread.open.back()->record.index);
  record.substitutions = std::move(noted);
  record.generator.reset();
  record.wall_ns = 0;
  frame.excluded = is_excluded(*frame.plan, record.site);
  frame.keep_bytes = options_.keep_ops.empty() || core::contains(options_.keep_ops, record.index);
  // Of the outermost call: what it and the calls inside it made is not settled before it returns.
  frame.first_inner = thread.open.empty() ? std::numeric_limits<std::int64_t>::max()
                                          : std::min(thread.open.front()->first_number,
                                                     thread.open.front()->first_inner);
  frame.first_number = tensors_.storages().next_number();
  note_last(record, false);
  sink_->enter(record);
}

void Capture::fill_inputs(const Call& call, Frame& frame) {
  frame.tensors.restart();
  frame.input_storages.clear();
  frame.written.clear();
  frame.watched.clear();
  const OperatorPlan& plan = *frame.plan;
  const c10::IValue* arguments = arguments_of(plan, call.stack);
  const bool running = updates_running_stats(plan, arguments);
  RecordingOrder order;
  order.excluded = frame.excluded;
  order.keep_bytes = frame.keep_bytes;
  order.verify = options_.verify_inputs;
  order.first_inner = frame.first_inner;
  bool written = false;
  const auto add = [&](const at::Tensor& tensor, const std::string& slot) {
    const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
    const std::size_t index = tensors_.add(tensor, slot, order, frame.tensors);
    if (tensor.defined()) {
      frame.watch(tensor, version, index);
      for_each_storage(tensor, [&](const c10::Storage& storage) {
        frame.input_storages.push_back(storage.unsafeGetStorageImpl());
      });
      if (written) {
        frame.written.push_back(
            {tensor, slot, storage_size_of(tensor), tensor.is_nested() ? 0 : tensor.numel(), {}});
      }
    }
    return static_cast<std::uint32_t>(index);
  };
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const ArgumentPlan& argument = plan.arguments[i];
    const bool statistic =
        running && std::find(plan.running_stats.begin(), plan.running_stats.end(), i) !=
                       plan.running_stats.end();
    written = argument.written || statistic;
    order.reads = !written && !plan.view;
    build_value(arguments[i],
                argument.meaning,
                argument.name,
                packed_,
                std::ref(add),
                frame.record.arguments[i].value);
  }
  if (plan.picks) note_picked(arguments, frame);
  note_stale(frame);
  note_raced(frame.record);
}

/// Asked only where it decides what has been written of fresh memory.
void Capture::note_picked(const c10::IValue* arguments, Frame& frame) {
  if (frame.written.size() != 1) return;
  WrittenArgument& written = frame.written.front();
  if (form_of(written.tensor) != TensorForm::kStrided) return;
  const c10::Storage& storage = written.tensor.unsafeGetTensorImpl()->unsafe_storage();
  const StorageEntry& entry = tensors_.storages().find(storage);
  if (!entry.uninitialised || !entry.follows_writes) return;
  std::string_view base = frame.plan->info->name;
  base.remove_prefix(base.find("::") + 2);
  written.picked = picked_bytes(base, arguments);
}

void Capture::end(const Call& call,
                  std::unique_ptr<Frame> frame,
                  const ThreadState& thread) noexcept {
  if (!frame) return;
  const auto finished = std::chrono::steady_clock::now();
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  try {
    frame->record.wall_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(finished - frame->started).count());
    note_movement(*frame);
    fill_outputs(call, *frame);
    append_raised();
    append(std::move(frame));
    if (!thread.open.empty()) note_last(thread.open.back()->record, last_.raised);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::note_movement(Frame& frame) {
  core::OpRecord& record = frame.record;
  const auto [counted, moved] = movement_since(frame.before);
  if (!counted) note_uncounted(frame);
  if (!moved) return;
  if (options_.rng == core::RngMode::kHost) {
    warn(fmt::format("{} drew from the {} generator: rng host cannot move its draws to the host",
                     frame.plan->full_name,
                     moved->device));
  }
  if (!record.generator) record.generator = moved;
}

/// Where a kernel calls operators while it holds the generator, those cannot draw from it, and what
/// the kernel draws is counted for the call around them.
void Capture::note_uncounted(const Frame& frame) {
  if (frame.record.parent >= 0 && !frame.plan->info->seeded) return;
  if (counts_.uncounted_draws++ > 0) return;
  warn(fmt::format(
      "op {} {} is the first whose random draws are not counted: while it ran, somebody "
      "else was drawing from its generator",
      frame.record.index,
      frame.plan->full_name));
}

void Capture::fill_outputs(const Call& call, Frame& frame) {
  const OperatorPlan& plan = *frame.plan;
  const c10::IValue* results = call.stack.data() + (call.stack.size() - plan.results.size());
  apply_writes(frame);
  frame.record.results.resize(plan.results.size());
  OutputVisitor visitor(*this, frame);
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    const ResultPlan& result = plan.results[i];
    visitor.set_result(result);
    build_value(results[i],
                IntegerMeaning::kNumber,
                result.slot,
                packed_,
                std::ref(visitor),
                frame.record.results[i]);
  }
  visitor.add_written();
  note_raced(frame.record);
}

void Capture::apply_writes(Frame& frame) {
  const auto index = static_cast<std::int64_t>(frame.record.index);
  const StorageEffect effect = frame.plan->effect;
  if (effect == StorageEffect::kMetadata) return;
  for (const WrittenArgument& written : frame.written) {
    const bool grown =
        storage_size_of(written.tensor) > written.bytes_before ||
        (!written.tensor.is_nested() && written.tensor.numel() > written.elements_before);
    if (effect == StorageEffect::kResize && !grown) continue;
    const bool strided = form_of(written.tensor) == TensorForm::kStrided;
    for_each_storage(written.tensor, [&](const c10::Storage& storage) {
      StorageEntry& entry = tensors_.storages().find(storage);
      if (strided && effect == StorageEffect::kOrdinary) {
        entry.written_by(index, written.tensor, written.picked ? &*written.picked : nullptr);
      } else {
        entry.written_by(index);
      }
      if (effect != StorageEffect::kOrdinary) {
        entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
      }
    });
  }
}

void Capture::append(std::unique_ptr<Frame> frame) {
  frame->tensors.finish();
  ++counts_.operators;
  counts_.tensors += frame->tensors.size();
  counts_.substitutions += frame->record.substitutions.size();
  if (frame->record.generator) ++counts_.drawing_operators;
  frame->written.clear();
  sink_->append(frame->record);
  frame->plan->idle.push_back(std::move(frame));
}

void Capture::raised(std::unique_ptr<Frame> frame) noexcept {
  if (!frame) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  try {
    // The innermost call that raised is the one to name; its callers raise after it.
    if (!last_.raised) note_last(frame->record, true);
    frame->record.results.clear();
    apply_writes(*frame);
    frame->written.clear();
    raised_.push_back(std::move(frame));
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::append_raised() {
  if (raised_.empty()) return;
  std::vector<std::unique_ptr<Frame>> survived = std::exchange(raised_, {});
  for (std::unique_ptr<Frame>& frame : survived) append(std::move(frame));
}

}  // namespace repro_check::capture
