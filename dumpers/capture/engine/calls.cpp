// SPDX-License-Identifier: Apache-2.0
// How a call of an operator becomes a record.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>

#include "dumpers/capture/engine/pending.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/python_dispatch.h"
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

bool was_given(const Frame& frame, const c10::Storage& storage) {
  return std::ranges::find(frame.input_storages, storage.unsafeGetStorageImpl()) !=
         frame.input_storages.end();
}

/// A layer that is made anew packs weights that nobody has written, until it is given its own.
bool packs_unwritten(Frame& frame) {
  for (std::size_t i = 0; frame.plan->packs && i < frame.tensors.size(); ++i) {
    if (frame.tensors[i].state == core::ContentState::kUninitialised) return true;
  }
  return false;
}

/// Of which operators will show what is written.
void take_new_memory(const c10::Storage& storage, StorageEntry& entry) {
  entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
  entry.follows_writes = true;
}

/// A nested tensor has no shape to multiply.
std::int64_t number_of_elements(const at::Tensor& tensor) {
  return tensor.is_nested() ? 0 : tensor.numel();
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
    // What another shape or storage shows was there before, or is nobody's yet.
    order_.reads = !frame.plan->view && frame.plan->effect != StorageEffect::kMetadata &&
                   frame.plan->effect != StorageEffect::kResize;
    filled_later_ = frame.filled || capture.gives_later(*frame.plan) || packs_unwritten(frame);
    order_.first_inner = frame.first_inner;
  }

  void set_result(const ResultPlan& result) {
    result_ = &result;
    order_.filled_next = filled_later_ || result.partial;
  }

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
    if (same_as_input) settle_shared(tensor, index);
    return index;
  }

  /// Whether a result has the memory of an argument.
  [[nodiscard]] bool shows_given() const { return shows_given_; }

  /// Arguments that were written and are not among the results.
  void add_written() {
    order_.filled_next = filled_later_;
    if (frame_.plan->effect == StorageEffect::kMetadata) return;
    for (const WrittenArgument& written : frame_.written) {
      if (std::find(seen_.begin(), seen_.end(), written.tensor.unsafeGetTensorImpl()) ==
          seen_.end()) {
        add(written.tensor, written.slot);
      }
    }
    for (const MaybeWrittenArgument& maybe : frame_.maybe_written) {
      const std::size_t index = add(maybe.tensor, maybe.slot);
      frame_.tensors.arrivals.written.push_back({index, maybe.write});
    }
  }

 private:
  [[nodiscard]] std::int64_t own_index() const {
    return static_cast<std::int64_t>(frame_.record.index);
  }

  /// Of an argument that is handed back, whether this call has written it. What nobody looked at
  /// may have been: what was known of its content holds no more.
  void settle_shared(const at::Tensor& tensor, std::uint32_t index) {
    const bool unread = frame_.excluded;
    std::vector<Arrivals::Change> changes;
    if (!unread) changes = capture_.tensors_.take_stale();
    std::erase_if(changes, [](const Arrivals::Change& change) {
      return change.after != nullptr && !is_on_the_way(change.before) &&
             !is_on_the_way(change.after) &&
             !OpenWrite{0, 0, nullptr, change.before, change.after}.happened();
    });
    const bool written = unread ? frame_.plan->exchange != Exchange::kNone
                                : std::ranges::any_of(changes, [](const Arrivals::Change& change) {
                                    return change.after == nullptr;
                                  });
    if (!written && !unread && changes.empty()) return;
    for_each_storage(tensor, [&](const c10::Storage& storage) {
      StorageEntry& entry = capture_.tensors_.storages().find(storage);
      if (unread) entry.digests.clear();
      if (written) {
        entry.set_writer(own_index());
        entry.forget_names();
        return;
      }
      for (const Arrivals::Change& change : changes) {
        entry.open_writer(own_index(), change.before, change.after);
      }
      if (entry.open_write != nullptr) {
        frame_.tensors.arrivals.producers.push_back({index, entry.open_write});
      }
    });
    if (!written) return;
    frame_.tensors[index].producer = own_index();
    frame_.tensors[index].name.clear();
  }

  std::uint32_t add(const at::Tensor& tensor, const std::string& slot) {
    const std::size_t index = capture_.tensors_.add(tensor, slot, order_, frame_.tensors);
    if (!frame_.plan->view) name_class(tensor, frame_.tensors[index]);
    return static_cast<std::uint32_t>(index);
  }

  /// Of values that a class of the program's keeps.
  void name_class(const at::Tensor& tensor, core::TensorRecord& record) const {
    const auto object = python_object(tensor);
    if (!object) return;
    std::string name = *object == nullptr || capture_.sites_ == nullptr
                           ? std::string()
                           : capture_.sites_->class_of(*object);
    if (name.empty()) name = "unknown class";
    record.attributes = core::kOpaqueOf;
    record.attributes += name;
    if (order_.excluded) record.state = core::ContentState::kExcluded;
  }

  /// @return false when the storage is an argument's and the schema is silent about it
  bool note_storage(const c10::Storage& storage) {
    const bool is_input = was_given(frame_, storage);
    shows_given_ = shows_given_ || is_input;
    if (frame_.plan->shows_written) return true;
    // `set_` shows what a storage already holds.
    if (frame_.plan->effect == StorageEffect::kMetadata) return result_->aliases;
    if (is_input && frame_.plan->is_launch) {
      StorageEntry& given = capture_.tensors_.storages().find(storage);
      if (given.uninitialised) given.written_by(own_index());
      return false;
    }
    // Who reads it from here on has it from there, and it has the content from outside.
    if (frame_.plan->lifts) capture_.tensors_.storages().find(storage).set_writer(own_index());
    // What ranks give one another is in what they were given, whatever the schema says.
    if (is_input && !capture_.gives_later(*frame_.plan)) return result_->aliases;
    StorageEntry& entry = capture_.tensors_.storages().find(storage);
    entry.written_by(own_index());
    if (frame_.plan->effect == StorageEffect::kFresh && !frame_.filled) {
      entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
      entry.follows_writes = capture_.follows_writes(frame_);
    }
    return true;
  }

  Capture& capture_;
  Frame& frame_;
  const ResultPlan* result_ = nullptr;
  bool shows_given_ = false;
  bool filled_later_ = false;  ///< results are written without an operator, after the call
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
  if (place.phase && frame.plan->exchange == Exchange::kCollective)
    record.phase = core::Phase::kReduce;
  record.modes = read_call_modes();
  if (sites_ != nullptr && sites_->calls_in_eval()) {
    if (!record.modes.empty()) record.modes += ' ';
    record.modes += core::kModuleInEval;
  }
  record.depth = static_cast<std::uint32_t>(thread.open.size());
  record.parent =
      thread.open.empty() ? -1 : static_cast<std::int64_t>(thread.open.back()->record.index);
  record.substitutions = std::move(noted);
  record.generator.reset();
  record.wall_ns = 0;
  const bool picked =
      place.reading == Reading::kValues ||
      (place.reading != Reading::kNone && core::contains(options_.keep_ops, record.index));
  const bool read = picked || place.reading == Reading::kAll;
  frame.unread = place.reading == Reading::kNone;
  frame.excluded = !read || is_excluded(*frame.plan, record.site);
  frame.keep_bytes = options_.keep_ops.empty() || picked;
  // Of the outermost call: what it and the calls inside it made is not settled before it returns.
  frame.first_inner = thread.open.empty() ? std::numeric_limits<std::int64_t>::max()
                                          : std::min(thread.open.front()->first_number,
                                                     thread.open.front()->first_inner);
  frame.first_number = tensors_.storages().next_number();
  note_last(record, false);
  sink_->enter(record);
}

void Capture::fill_inputs(const Call& call, Frame& frame) {
  frame.restart();
  const OperatorPlan& plan = *frame.plan;
  const c10::IValue* arguments = arguments_of(plan, call.stack);
  const bool running = updates_running_stats(plan, arguments);
  RecordingOrder order;
  order.excluded = frame.excluded;
  order.keep_bytes = frame.keep_bytes;
  // Of operators picked for their values somebody wants to say that their inputs were equal.
  order.verify = options_.verify_inputs || (frame.keep_bytes && !options_.keep_ops.empty());
  order.first_inner = frame.first_inner;
  order.filled_next = options_.no_sync && plan.waits;
  bool written = false;
  const auto add = [&](const at::Tensor& tensor, const std::string& slot) {
    const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
    const std::size_t index = tensors_.add(tensor, slot, order, frame.tensors);
    if (tensor.defined()) {
      frame.watch(tensor, version, index);
      // What `set_` and `resize_` write shows other memory afterwards.
      const bool is_unfilled = plan.view && !written && options_.unseen_writes && !order.excluded &&
                               frame.tensors[index].state == core::ContentState::kUninitialised &&
                               form_of(tensor) == TensorForm::kStrided;
      if (is_unfilled) frame.unfilled.push_back({tensor, index});
      if (plan.is_custom && !written && frame.tensors[index].state == core::ContentState::kHashed) {
        frame.held.push_back({tensor, slot, index});
      }
      for_each_storage(tensor, [&](const c10::Storage& storage) {
        frame.input_storages.push_back(storage.unsafeGetStorageImpl());
      });
      if (written) {
        frame.written.push_back(
            {tensor, slot, storage_size_of(tensor), number_of_elements(tensor), {}});
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
    order.reads = !written && !argument.unread && !plan.view;
    // Whoever keeps the bytes may want to call it again.
    order.excluded =
        frame.excluded || (argument.unkept && options_.level != core::DumpLevel::kTensor);
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
    if (host_rng_.has_moved(at::Generator(frame.before.generator))) return;
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
  warn(
      fmt::format("op {} {} is the first operator whose random draws are not counted: another "
                  "thread drew from its generator at the same time",
                  frame.record.index,
                  frame.plan->full_name));
}

void Capture::fill_outputs(const Call& call, Frame& frame) {
  const OperatorPlan& plan = *frame.plan;
  const c10::IValue* results = call.stack.data() + (call.stack.size() - plan.results.size());
  note_undeclared_writes(frame);
  apply_writes(frame);
  if (plan.shows_written) note_shown(results[0].toTensor(), frame);
  frame.record.results.resize(plan.results.size());
  OutputVisitor visitor(*this, frame);
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    const ResultPlan& result = plan.results[i];
    if (frame.unread && results[i].isScalar()) {
      frame.record.results[i] = {};
      continue;
    }
    visitor.set_result(result);
    build_value(results[i],
                IntegerMeaning::kNumber,
                result.slot,
                packed_,
                std::ref(visitor),
                frame.record.results[i]);
  }
  if (!gives_later(plan)) visitor.add_written();
  // `to` and its like show what they are given, or read it.
  if (visitor.shows_given()) frame.unfilled.clear();
  for (const UnfilledArgument& argument : frame.unfilled) {
    tensors_.read_filled(argument.tensor, frame.keep_bytes, argument.record, frame.tensors);
  }
  frame.unfilled.clear();
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
        return;
      }
      if (effect == StorageEffect::kResize) {
        entry.grow(index, *storage.unsafeGetStorageImpl(), written.bytes_before);
        entry.follows_writes = follows_writes(frame);
        return;
      }
      entry.written_by(index);
      if (effect != StorageEffect::kOrdinary) {
        entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
      }
    });
  }
}

void Capture::note_undeclared_writes(Frame& frame) {
  for (HeldArgument& held : frame.held) {
    const c10::StorageImpl* storage =
        held.tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    const bool is_known = std::ranges::any_of(frame.written, [&](const WrittenArgument& written) {
      return written.tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
             storage;
    });
    if (is_known) continue;
    RecordingOrder order;
    order.keep_bytes = false;
    order.verify = true;
    std::vector<core::TensorRecord> again;
    RecordList list(again);
    tensors_.add(held.tensor, held.slot, order, list);
    tensors_.take_stale();
    const core::TensorRecord& before = frame.tensors[held.record];
    if (again.front().state != before.state) continue;
    if (frame.tensors.awaited(held.record) != nullptr || list.awaited(0) != nullptr) {
      note_maybe_written(held, list.content_of(0), frame);
      continue;
    }
    if (again.front().digest == before.digest) continue;
    frame.written.push_back(
        {held.tensor, held.slot, storage_size_of(held.tensor), held.tensor.numel(), {}});
  }
  frame.held.clear();
}

/// What is known of its content holds: it was digested behind the call.
void Capture::note_maybe_written(HeldArgument& held, const Awaited& after, Frame& frame) {
  const Awaited before = frame.tensors.content_of(held.record);
  StorageEntry& entry =
      tensors_.storages().find(held.tensor.unsafeGetTensorImpl()->unsafe_storage());
  entry.open_writer(static_cast<std::int64_t>(frame.record.index), before, after);
  frame.maybe_written.push_back({std::move(held.tensor), std::move(held.slot), entry.open_write});
}

void Capture::note_shown(const at::Tensor& shown, const Frame& frame) {
  const c10::Storage& storage = shown.unsafeGetTensorImpl()->unsafe_storage();
  StorageEntry& entry = tensors_.storages().find(storage);
  if (!was_given(frame, storage)) take_new_memory(storage, entry);
  entry.written_by(static_cast<std::int64_t>(frame.record.index), shown, nullptr);
}

void Capture::note_new_memory(const c10::Storage& storage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  take_new_memory(storage, tensors_.storages().find(storage));
}

void Capture::note_shared(const at::Tensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_storage(tensor, [&](const c10::Storage& storage) {
    tensors_.storages().find(storage).shared = true;
  });
}

bool Capture::may_hold_untold(const at::Tensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool untold = false;
  for_each_storage(tensor, [&](const c10::Storage& storage) {
    const StorageEntry* entry = tensors_.storages().known(storage);
    untold |= entry != nullptr && (entry->uninitialised || entry->foreign || entry->shared);
  });
  return untold;
}

void Capture::append(std::unique_ptr<Frame> frame) {
  frame->tensors.finish();
  frame->written.clear();
  frame->maybe_written.clear();
  if (!is_settled(frame->tensors.arrivals))
    return keep(std::make_unique<PendingCall>(std::move(frame)));
  write(frame->record, frame->tensors.arrivals);
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
    note_undeclared_writes(*frame);
    apply_writes(*frame);
    frame->written.clear();
    frame->maybe_written.clear();
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
