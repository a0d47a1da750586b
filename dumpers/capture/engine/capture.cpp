// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/capture.h"

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/engine/dispatch.h"
#include "dumpers/capture/engine/pending.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/torch/python_dispatch.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

std::uint64_t next_capture_id() {
  static std::atomic<std::uint64_t> next = 1;
  return next++;
}

/// Texts kept of each kind of warning.
constexpr std::size_t kMaxWarnings = 100;

/// The frame is open, and the inside hidden, for the life of the guard.
class OpenFrame : core::Pinned {
 public:
  OpenFrame(ThreadState& thread, Frame* frame, Inside inside)
      : thread_(thread), open_(frame != nullptr), hides_(inside == Inside::kWatched) {
    if (open_) thread_.open.push_back(frame);
    if (hides_) ++thread_.hidden;
  }
  ~OpenFrame() {
    if (hides_) --thread_.hidden;
    if (open_) thread_.open.pop_back();
  }

 private:
  ThreadState& thread_;
  bool open_;
  bool hides_;
};

/// Has its value back when the guard goes.
class Restored : core::Pinned {
 public:
  explicit Restored(bool& value) : value_(value), before_(value) {}
  ~Restored() { value_ = before_; }

 private:
  bool& value_;
  bool before_;
};

bool matches_any(const std::vector<std::string>& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return core::glob_match(pattern, text);
  });
}

/// The thread's own, whichever capture it worked for last.
ThreadState& thread_state() {
  thread_local ThreadState thread;
  return thread;
}

/// `aten::conv2d (backbone.conv1, model.py:40)`
std::string call_text(const core::OperatorInfo& op, const core::CallSite* site) {
  const std::string place = site == nullptr ? "" : place_text(*site);
  return place.empty() ? op.full_name() : fmt::format("{} ({})", op.full_name(), place);
}

void redispatch(const Call& call) { call.op.redispatchBoxed(call.keys, &call.stack); }

/// What a class of tensors calls is seen for the life of the guard, though LibTorch hides it.
class ShownInside : core::Pinned {
 public:
  explicit ShownInside(ThreadState& thread)
      : thread_(thread),
        hidden_(std::exchange(thread.hidden, 0)),
        excluded_(c10::impl::tls_is_dispatch_key_excluded(kCaptureKey)) {
    thread_.enters_python = false;
    ++thread_.inside_python;
    c10::impl::tls_set_dispatch_key_excluded(kCaptureKey, false);
  }
  ~ShownInside() {
    c10::impl::tls_set_dispatch_key_excluded(kCaptureKey, excluded_);
    --thread_.inside_python;
    thread_.enters_python = true;
    thread_.hidden = hidden_;
  }

 private:
  ThreadState& thread_;
  unsigned hidden_;
  bool excluded_;
};

/// In the place of what Python does. Of what a mode does nothing is shown: it calls what it was
/// called for once more.
void show_python(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ThreadState& thread = thread_state();
  if (!thread.enters_python || c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python)) {
    return go_to_python(op, stack);
  }
  const ShownInside shown(thread);
  go_to_python(op, stack);
}

/// What a class of tensors finds out about shapes and dtypes, often once in the life of the
/// process, is nothing that the program computes.
bool only_shapes(const Call& call) {
  if (call.keys.has_backend(c10::BackendComponent::MetaBit)) return true;
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python)) return true;
  const auto arguments = static_cast<std::ptrdiff_t>(call.op.schema().arguments().size());
  return std::any_of(call.stack.end() - arguments, call.stack.end(), [](const c10::IValue& value) {
    return value.isDevice() && value.toDevice().is_meta();
  });
}

}  // namespace

std::string place_text(const core::CallSite& site) {
  std::string place = site.module_path;
  if (const core::SourceFrame* frame = core::display_frame(site)) {
    place += fmt::format("{}{}:{}", place.empty() ? "" : ", ", frame->file, frame->line);
  }
  return place;
}

std::string running_call() {
  const std::vector<Frame*>& open = thread_state().open;
  if (open.empty()) return {};
  const core::OpRecord& record = open.front()->record;
  return call_text(*record.op, record.site.get());
}

Capture::Capture(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites)
    : id_(next_capture_id()),
      process_(::getpid()),
      options_(options),
      sink_(&sink),
      sites_(sites),
      plans_(options.include, options.exclude),
      tensors_(options.level,
               options.unseen_writes,
               sink,
               options.devices == nullptr ? cuda_devices() : *options.devices) {
  this_thread().lane = core::kMainLane;
  ensure_fallback();
}

/// Waits until no thread is inside any more.
Capture::~Capture() {
  forget(*this);
  wait_until_left();
}

Capture::Scope::Scope(Capture& capture, std::optional<std::uint32_t> lane)
    : capture_(capture),
      previous_(c10::impl::tls_is_dispatch_key_included(kCaptureKey)),
      exceptions_(std::uncaught_exceptions()) {
  lane_.emplace(LaneState::kind(), capture.begin_lane(lane));
  activate(capture);
  c10::impl::tls_set_dispatch_key_included(kCaptureKey, true);
}

Capture::Scope::~Scope() {
  c10::impl::tls_set_dispatch_key_included(kCaptureKey, previous_);
  lane_.reset();
  deactivate(capture_);
  // A call that raised and left the scope with its exception is the operator the run died in: it
  // stays open in the dump.
  if (std::uncaught_exceptions() == exceptions_) capture_.settle();
  capture_.flush();
}

ThreadState& Capture::this_thread() {
  ThreadState& thread = thread_state();
  if (thread.capture != id_) {
    thread = ThreadState{};
    thread.capture = id_;
  }
  return thread;
}

Capture::Place Capture::place() const {
  if (sites_ == nullptr) return {};
  return {sites_->current_site(), sites_->current_phase(), sites_->reading()};
}

std::optional<std::uint32_t> Capture::fork_lane() {
  LaneState* lane = inherited_lane();
  if (lane == nullptr || !lane->is_held_here()) return std::nullopt;
  const std::shared_ptr<LaneState> forked = lane->fork();
  const std::lock_guard<std::mutex> lock(mutex_);
  forked_[forked->number] = forked;
  return forked->number;
}

std::shared_ptr<LaneState> Capture::begin_lane(std::optional<std::uint32_t> forked) {
  ThreadState& thread = this_thread();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (forked) thread.lane = forked;
  if (!thread.lane) thread.lane = core::forked_lane(core::kMainLane, lanes_begun_++);
  std::shared_ptr<LaneState> lane;
  if (const auto prepared = forked_.extract(*thread.lane)) {
    lane = prepared.mapped();
  } else {
    lane = std::make_shared<LaneState>(id_, *thread.lane);
    lane->set_step(step_, false);
  }
  lane->hold();
  return lane;
}

LaneState* Capture::inherited_lane() const noexcept {
  LaneState* lane = LaneState::current();
  return lane != nullptr && lane->capture == id_ ? lane : nullptr;
}

std::uint32_t Capture::lane_number() const noexcept {
  LaneState* lane = inherited_lane();
  if (lane == nullptr) return core::pool_lane(core::kMainLane);
  if (lane->is_held_here()) return lane->number;
  const std::optional<int> device = sites_ != nullptr ? sites_->backward_device() : std::nullopt;
  const bool goes_on = device && lane->has_backward_of(*device);
  return goes_on ? lane->number : core::pool_lane(lane->number);
}

bool Capture::is_of_program() const {
  const LaneState* lane = inherited_lane();
  if (lane == nullptr) return true;
  if (lane->is_launched_here()) return false;
  return sites_ == nullptr || !lane->is_held_here() || sites_->runs_model(lane->step());
}

OperatorPlan* Capture::find_plan(const Call& call, ThreadState& thread) noexcept {
  const c10::FunctionSchema* schema = &call.op.schema();
  ThreadState::KnownPlan& known = thread.plan_of(schema);
  if (known.schema == schema) return known.plan;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    known = {schema, &plans_.find(call.op)};
    return known.plan;
  } catch (...) {
    fail(std::current_exception());
    return nullptr;
  }
}

bool Capture::decomposes(const Call& call, const OperatorPlan& plan) const {
  if (!plan.composite) return false;
  constexpr c10::DispatchKeySet kBackends(c10::DispatchKeySet::FULL_AFTER,
                                          c10::DispatchKey::BackendSelect);
  const c10::DispatchKey backend = (call.keys & kBackends).highestPriorityTypeId();
  return backend == c10::DispatchKey::Undefined || !call.op.hasKernelForDispatchKey(backend);
}

void Capture::intercept(const Call& call) {
  if (failed_.load(std::memory_order_relaxed)) return redispatch(call);
  ThreadState& thread = this_thread();
  if (thread.open.empty() && !is_of_program()) return redispatch(call);
  if (thread.inside_python > 0 && only_shapes(call)) return redispatch(call);
  OperatorPlan* plan = find_plan(call, thread);
  if (plan == nullptr || plan->is_marker) return redispatch(call);
  if (thread.hidden > 0) return intercept_hidden(call, *plan, thread);

  std::vector<core::Substitution> noted;
  if (options_.disable_dropout && !plan->doors.empty()) close_doors(*plan, call.stack, noted);
  Inside inside = options_.disable_dropout || options_.rng == core::RngMode::kHost
                      ? Inside::kWatched
                      : Inside::kUnseen;
  if (options_.depth == core::DumpDepth::kAll) {
    inside = Inside::kRecorded;
  } else if (options_.depth == core::DumpDepth::kLeaf && decomposes(call, *plan)) {
    // A door that was closed here is recorded here, even though the operator is no leaf.
    if (noted.empty()) return redispatch(call);
    inside = Inside::kRecorded;
  }
  record(call, *plan, thread, inside, std::move(noted));
}

void Capture::intercept_exchange(const Call& call) {
  // What a collective makes others of, in this process, is of that one.
  const bool is_wanted = options_.depth == core::DumpDepth::kBlocks && this_thread().open.empty();
  if (!is_wanted || only_shapes(call)) return redispatch(call);
  forget_contents();  // of the operators that wrote what is sent none was seen
  intercept(call);
}

void Capture::intercept_hidden(const Call& call, const OperatorPlan& plan, ThreadState& thread) {
  if (options_.disable_dropout && !plan.doors.empty()) {
    std::vector<core::Substitution> noted;
    close_doors(plan, call.stack, noted);
    for (core::Substitution& substitution : noted) {
      if (thread.open.empty()) break;
      substitution.argument = fmt::format("{}({})", plan.info->name, substitution.argument);
      thread.open.back()->record.substitutions.push_back(std::move(substitution));
    }
  }
  if (!draw_on_host(call, plan, thread)) redispatch(call);
}

bool Capture::draw_on_host(const Call& call, const OperatorPlan& plan, ThreadState& thread) {
  if (options_.rng != core::RngMode::kHost || plan.host_draw == HostDraw::kNone) return false;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  at::Generator given;
  const at::Generator* const generator = generator_of(plan, arguments_of(plan, call.stack), given);
  if (generator == nullptr || !generator->defined()) return false;
  if (!thread.open.empty()) {
    // What drew before inside of the same call is not seen behind this.
    const std::lock_guard<std::mutex> lock(mutex_);
    note_movement(*thread.open.back());
  }
  const at::Generator* const usual = default_generator(generator->device());
  const bool of_process = usual != nullptr && *usual == *generator;
  const auto drawn = host_rng_.draw(call.op, plan, call.stack, *generator, of_process);
  if (!drawn) return false;
  if (thread.open.empty()) return true;
  core::OpRecord& record = thread.open.back()->record;
  const std::string argument =
      thread.hidden > 0 && record.op != plan.info ? fmt::format("{}(rng)", plan.info->name) : "rng";
  record.substitutions.push_back(
      {argument, "device", fmt::format("host, seed {}", drawn->seed), "rng: host"});
  if (!record.generator) {
    record.generator = drawn->use;
  } else {
    record.generator->drawn += drawn->use.drawn;
    record.generator->position_after = drawn->use.position_after;
  }
  return true;
}

bool Capture::opens_python(const Call& call, const OperatorPlan& plan, ThreadState& thread) {
  if (!call.keys.has(c10::DispatchKey::Python)) return false;
  if (enters_tensor_class(call.keys) && stand_before_python(call.stack, &show_python)) return true;
  if (python_interpreter(call.stack) == nullptr || thread.open.empty()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (counts_.unseen_insides++ > 0) return false;
  warn(fmt::format(
      "op {} {} is the first operator on a tensor subclass whose inner operators were not recorded",
      thread.open.back()->record.index,
      plan.full_name));
  return false;
}

void Capture::execute(const Call& call,
                      const OperatorPlan& plan,
                      ThreadState& thread,
                      Inside inside) {
  if (draw_on_host(call, plan, thread)) return;
  const Restored enters(thread.enters_python);
  thread.enters_python = opens_python(call, plan, thread);
  if (inside == Inside::kUnseen) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
    redispatch(call);
  } else {
    redispatch(call);
  }
}

namespace {

/// Of the functional collectives, which keep what is to be waited for by their result.
void wait_for_tensor(const at::Tensor& tensor) {
  const auto wait = c10::Dispatcher::singleton().findSchema({kWaitTensor, ""});
  if (!wait || !tensor.defined()) return;
  const EngineCalls unseen;
  torch::jit::Stack stack{tensor};
  wait->callBoxed(&stack);
}

/// What a collective returns is not there yet when it returns: its values are those of the end.
void wait_for_ranks(const OperatorPlan& plan, const torch::jit::Stack& stack) {
  const bool functional =
      plan.arguments[static_cast<std::size_t>(plan.group_argument)].name == "group_name";
  for (std::size_t i = stack.size() - plan.results.size(); i < stack.size(); ++i) {
    if (functional && stack[i].isTensor()) wait_for_tensor(stack[i].toTensor());
    if (functional && stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) wait_for_tensor(tensor);
    }
    if (!stack[i].isObject()) continue;
    // NCCL gives none where the stream itself waits.
    const c10::IValue held = stack[i].toObjectRef().getSlot(0);
    if (held.isCapsule() && !held.toCapsule()) continue;
    const auto type = stack[i].type()->cast<c10::ClassType>();
    torch::jit::Function* const wait = type ? type->findMethod("wait") : nullptr;
    if (wait != nullptr) (*wait)({stack[i]});
  }
}

}  // namespace

void Capture::name_group(const void* group,
                         const std::string& name,
                         std::vector<std::int64_t> ranks) {
  if (options_.depth == core::DumpDepth::kBlocks) ensure_before_exchanges();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    exchanges_.name_group(group, name);
  }
  record_values(
      std::string(core::kGroupRecord),
      {{std::string(core::kGroupName), name}, {std::string(core::kGroupRanks), std::move(ranks)}});
}

void Capture::note_exchange(const Call& call, const OperatorPlan& plan, const ThreadState& thread) {
  // One that another makes is of that one.
  const bool inside_another = std::ranges::any_of(
      thread.open, [](const Frame* frame) { return frame->plan->exchange != Exchange::kNone; });
  if (inside_another) return;
  EnteredExchange entered;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entered = exchanges_.enter(plan, arguments_of(plan, call.stack));
  }
  record_values(std::string(core::kCollectiveRecord), entered.values, entered.follows);
}

void Capture::record(const Call& call,
                     OperatorPlan& plan,
                     ThreadState& thread,
                     Inside inside,
                     std::vector<core::Substitution> noted) {
  if (plan.exchange != Exchange::kNone) note_exchange(call, plan, thread);
  std::unique_ptr<Frame> frame = begin(call, plan, thread, std::move(noted));
  try {
    const OpenFrame open(thread, frame.get(), inside);
    execute(call, plan, thread, inside);
    // Nobody waits for the sake of contents that are not read, as in steps between those of
    // borders.
    const bool is_read =
        options_.depth != core::DumpDepth::kBlocks || (frame != nullptr && !frame->excluded);
    if (plan.exchange != Exchange::kNone && !gives_later(plan) && is_read) {
      wait_for_ranks(plan, call.stack);
    }
  } catch (...) {
    // The operator's own exception; it is not ours to change.
    raised(std::move(frame));
    throw;
  }
  end(call, std::move(frame), thread);
}

void Capture::name_tensor(const at::Tensor& tensor, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_strided(tensor, [&](const at::Tensor& part) {
    const c10::Storage& storage = part.unsafeGetTensorImpl()->unsafe_storage();
    tensors_.storages().find(storage).put_name(part, name);
    if (!part.is_quantized()) return;
    std::string unused;
    for (const auto& [ending, scales] : parts_of(part, TensorForm::kStrided, unused)) {
      const c10::Storage& its = scales.unsafeGetTensorImpl()->unsafe_storage();
      tensors_.storages().find(its).put_name(scales, name);
    }
  });
}

std::vector<core::TensorRecord> Capture::describe(const at::Tensor& tensor,
                                                  const std::string& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<core::TensorRecord> records;
  RecordList list(records);
  RecordingOrder order;
  order.keep_bytes = false;
  tensors_.add(tensor, slot, order, list);
  wait_for(list.arrivals);
  tensors_.settle(list.arrivals, records);
  return records;
}

NamedTensors Capture::unpack(const c10::IValue& object, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  NamedTensors tensors;
  core::Value unused;
  const auto collect = [&](const at::Tensor& tensor, const std::string& slot) {
    tensors.emplace_back(slot, tensor);
    return std::uint32_t{0};
  };
  build_value(object, IntegerMeaning::kNumber, name, packed_, collect, unused);
  return tensors;
}

void Capture::set_step(std::uint32_t step, bool of_ancestors) {
  if (of_ancestors) raise(step_, step);
  if (LaneState* lane = inherited_lane()) lane->set_step(step, of_ancestors);
}

std::uint32_t Capture::step() const {
  const LaneState* lane = inherited_lane();
  return lane == nullptr ? step_.load() : lane->step();
}

void Capture::tell(const core::RunManifest& manifest) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sink_->begin(manifest);
}

void Capture::forget_contents() {
  const std::lock_guard<std::mutex> lock(mutex_);
  tensors_.storages().forget_contents();
}

std::uint64_t Capture::next_index() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_index_;
}

CaptureCounts Capture::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CaptureCounts counts = counts_;
  counts.hashed_bytes = tensors_.hashed_bytes();
  counts.device_waits += tensors_.devices().stalls();
  counts.accelerator = tensors_.accelerator();
  return counts;
}

std::vector<std::string> Capture::warnings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return warnings_;
}

std::vector<std::string> Capture::unmatched_include() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> unmatched;
  for (const std::string& pattern : options_.include) {
    const bool by_place =
        std::any_of(site_matches_.begin(), site_matches_.end(), [&](const auto& entry) {
          return matches_any({pattern}, entry.first->module_path);
        });
    if (!by_place && !plans_.any_matches(pattern)) unmatched.push_back(pattern);
  }
  return unmatched;
}

void Capture::add_warning(std::string text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  warn(std::move(text));
}

void Capture::rethrow_failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) throw core::Error(*failure_);
}

std::string Capture::last_operator() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return describe_last();
}

std::string Capture::describe_last() const {
  if (last_.op == nullptr) return {};
  return fmt::format("op {} {}", last_.index, call_text(*last_.op, last_.site.get()));
}

void Capture::warn(std::string text) {
  if (warnings_.size() >= kMaxWarnings || !warned_.insert(text).second) return;
  warnings_.push_back(std::move(text));
}

void Capture::fail(std::exception_ptr why) noexcept {
  try {
    if (failed_.exchange(true)) return;
    const std::string where = describe_last();
    const auto say = [&](const std::string& what) {
      return fmt::format("recording{}{}: {}", where.empty() ? "" : " ", where, what);
    };
    try {
      std::rethrow_exception(std::move(why));
    } catch (const core::Error& error) {
      failure_.emplace(error.kind(), say(error.what()), error.hint());
    } catch (const c10::Error& error) {
      failure_.emplace(core::ErrorKind::kInternal, say(error.what_without_backtrace()));
    } catch (const std::bad_alloc&) {
      failure_.emplace(core::ErrorKind::kRunFailed,
                       say("out of memory"),
                       "record at level digest, or leave operators out with dump.exclude");
    } catch (const std::exception& error) {
      failure_.emplace(core::ErrorKind::kInternal, say(error.what()));
    }
    sink_->fail(failure_->what());
  } catch (...) {
    // The sink that failed cannot note that it failed; failed_ and failure_ stand.
  }
}

void Capture::settle() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  try {
    append_raised();
  } catch (...) {
    fail(std::current_exception());
  }
}

bool Capture::is_excluded(const OperatorPlan& plan,
                          const std::shared_ptr<const core::CallSite>& site) {
  if (options_.include.empty() && options_.exclude.empty()) return false;
  SiteMatch match;
  if (site) {
    const auto [found, fresh] = site_matches_.try_emplace(site);
    if (fresh) {
      found->second = {matches_any(options_.include, site->module_path),
                       matches_any(options_.exclude, site->module_path)};
    }
    match = found->second;
  }
  const bool included = plan.matches_include || match.include;
  return !included || plan.matches_exclude || match.exclude;
}

void Capture::note_stale(Frame& frame) {
  for (Arrivals::Change& change : tensors_.take_stale()) {
    if (change.after != nullptr) {
      frame.tensors.arrivals.changes.push_back(std::move(change));
    } else {
      warn_of_stale(frame.record, change.slot);
    }
  }
}

void Capture::warn_of_stale(const core::OpRecord& record, const std::string& slot) {
  ++counts_.stale_inputs;
  warn(fmt::format("op {} {}: argument {} was changed by something outside the recorded operators",
                   record.index,
                   record.op->full_name(),
                   slot));
}

void Capture::note_raced(const core::OpRecord& record) {
  for (const std::string& slot : tensors_.take_raced()) {
    warn(fmt::format(
        "race on a tensor in use: op {} {}: {} was written by another thread while it was stored",
        record.index,
        record.op->full_name(),
        slot));
  }
}

void Capture::note_unordered(const core::OpRecord* record) {
  for (const std::string& slot : tensors_.take_unordered()) {
    warn(fmt::format(
        "{}: {} was read on another stream than the one that wrote it, and nothing that was "
        "recorded "
        "orders the two",
        record == nullptr ? "a block" : fmt::format("op {} {}", record->index, record->op->name),
        record == nullptr ? "a tensor" : slot));
  }
}

void Capture::number(core::OpRecord& record, const Place& place, std::uint32_t lane) {
  record.index = next_index_++;
  record.site = place.site;
  record.phase = place.phase.value_or(core::Phase::kForward);
  record.step = step();
  record.lane = lane;
}

}  // namespace repro_check::capture
