// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/capture.h"

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string_view>
#include <thread>

#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/python_dispatch.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

/// Who records. The counters are what lets a thread that still runs an operator (one that inherited
/// the key and outlived its scope) finish before the capture goes.
struct Active {
  std::atomic<Capture*> capture = nullptr;
  std::atomic<int> inside = 0;
  std::mutex mutex;
  int scopes = 0;
  /// Of a process that was forked from one that records, and does not record itself.
  std::atomic<bool> is_unrecorded = false;
  std::atomic<void (*)()> on_unrecorded = nullptr;
  std::unique_ptr<torch::Library> library;  ///< that holds the fallback, once there is one
  std::vector<std::unique_ptr<torch::Library>> exchanges;  ///< what stands before these
  std::set<std::string> watched;                           ///< operators that `exchanges` hold
};

Active& active() {
  static auto* state = new Active;  // outlives every thread
  return *state;
}

struct InUse : core::Pinned {
  InUse() { active().inside.fetch_add(1); }
  ~InUse() { active().inside.fetch_sub(1); }
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const InUse until_done;
  const Call call{op, below_capture(keys), *stack};
  if (Capture* capture = active().capture.load()) {
    capture->intercept(call);
  } else {
    if (active().is_unrecorded.load(std::memory_order_relaxed) &&
        active().is_unrecorded.exchange(false)) {
      if (auto* tell = active().on_unrecorded.load()) tell();
    }
    op.redispatchBoxed(call.keys, stack);
  }
}

/// Every thread has it among its keys, and no operator of c10d has a kernel there. So the kernels
/// of exchanges are called although the engine's key is off, and no other operator is slower.
constexpr c10::DispatchKey kExchangeKey = c10::DispatchKey::BackendSelect;

void before_exchange(const c10::OperatorHandle& op,
                     c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
  const InUse until_done;
  const Call call{
      op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kExchangeKey), *stack};
  if (Capture* capture = active().capture.load()) return capture->intercept_exchange(call);
  op.redispatchBoxed(call.keys, stack);
}

/// Stays, as the fallback does. Other libraries bring more operators: asked whenever a group is
/// made.
void ensure_before_exchanges() {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !is_exchange(op->schema()) || op->hasKernelForDispatchKey(kExchangeKey)) continue;
    const std::string full = c10::toString(name);
    if (!state.watched.insert(full).second) continue;
    state.exchanges.push_back(std::make_unique<torch::Library>(
        torch::Library::IMPL, full.substr(0, full.find(':')), kExchangeKey, __FILE__, __LINE__));
    state.exchanges.back()->impl(full.c_str(),
                                 torch::CppFunction::makeFromBoxedFunction<&before_exchange>());
  }
}

/// A forked child has the key and the capture of its parent, but not the parent's dump, nor its
/// threads: who holds the lock is gone, and a team of OpenMP that the parent used would be waited
/// for without end.
void forget_in_child() {
  Active& state = active();
  state.is_unrecorded = state.capture.load() != nullptr;
  state.capture = nullptr;
  state.inside = 0;
  state.scopes = 0;
  new (&state.mutex) std::mutex;
  read_serially();
}

/// Registers the boxed fallback, once in the life of the process. It stays: taking it away at exit
/// while a thread still has the key set would be a crash.
void ensure_fallback() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& library = active().library;
    library = std::make_unique<torch::Library>(
        torch::Library::IMPL, "_", kCaptureKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    pthread_atfork(nullptr, nullptr, &forget_in_child);
  });
}

/// Makes it the one that records; scopes of the same one nest.
void activate(Capture& capture) {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.scopes > 0 && state.capture.load() != &capture) {
    throw core::internal_error("this process is already being recorded");
  }
  state.capture = &capture;
  state.is_unrecorded = false;
  ++state.scopes;
}

void forget(Capture& capture) noexcept {
  Capture* expected = &capture;
  active().capture.compare_exchange_strong(expected, nullptr);
}

void deactivate(Capture& capture) noexcept {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (--state.scopes == 0) forget(capture);
}

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
  // Of `rand_like` and its like that of the result.
  const int device = plan.find("device");
  if (device >= 0 && arguments[device].isDevice()) {
    return default_generator(arguments[device].toDevice());
  }
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const c10::IValue& argument = arguments[i];
    if (argument.isTensor() && argument.toTensor().defined()) {
      return default_generator(argument.toTensor().device());
    }
  }
  return default_generator(c10::kCPU);
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

void tell_of_unrecorded_child(void (*told)()) noexcept { active().on_unrecorded = told; }

void expect_unrecorded_child() noexcept { active().is_unrecorded = false; }

struct Capture::Pending : core::Pinned {
  explicit Pending(std::size_t size) : bytes(size) {}
  virtual ~Pending() = default;
  /// Something that it waits for; null = all has come.
  [[nodiscard]] virtual Awaited next() const = 0;
  virtual void write(Capture& capture) = 0;

  const std::size_t bytes;  ///< about what it holds
};

namespace {

std::size_t bytes_of(const core::OpRecord& record) {
  constexpr std::size_t kOfTensor = 256;
  return sizeof(Frame) + record.tensors.size() * (sizeof(core::TensorRecord) + kOfTensor) +
         record.arguments.size() * sizeof(core::Argument);
}

}  // namespace

struct Capture::PendingCall final : Pending {
  explicit PendingCall(std::unique_ptr<Frame> its)
      : Pending(bytes_of(its->record)), frame(std::move(its)) {}
  [[nodiscard]] Awaited next() const override { return frame->tensors.arrivals.next(); }
  void write(Capture& capture) override {
    capture.write(frame->record, frame->tensors.arrivals);
    frame->plan->idle.push_back(std::move(frame));
  }
  std::unique_ptr<Frame> frame;
};

struct Capture::PendingRecord final : Pending {
  PendingRecord(core::OpRecord its, Arrivals awaited)
      : Pending(bytes_of(its)), record(std::move(its)), arrivals(std::move(awaited)) {}
  [[nodiscard]] Awaited next() const override { return arrivals.next(); }
  void write(Capture& capture) override { capture.write(record, arrivals); }
  core::OpRecord record;
  Arrivals arrivals;
};

struct Capture::PendingRow final : Pending {
  using Append = std::function<void(std::span<const BorderReading>)>;
  PendingRow(std::vector<BorderReading> read, Append append)
      : Pending(sizeof(PendingRow) + read.size() * 1024),
        borders(std::move(read)),
        append_to_sink(std::move(append)) {}
  [[nodiscard]] Awaited next() const override {
    for (const BorderReading& border : borders) {
      if (Awaited content = border.next()) return content;
    }
    return nullptr;
  }
  void write(Capture& capture) override {
    const auto unread = std::ranges::count_if(borders, &BorderReading::is_unread);
    capture.counts_.unread_borders += static_cast<std::uint64_t>(unread);
    append_to_sink(borders);
  }
  std::vector<BorderReading> borders;
  Append append_to_sink;
};

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
  while (active().inside.load() > 0) std::this_thread::yield();
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

void Capture::record_returned(const c10::IValue& value) {
  NamedValues values;
  for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    values.emplace_back(path, leaf);
  });
  append_values(std::string(core::kReturnedOperator), {values, {}, {}}, {}, core::kMainLane);
  flush();
}

void Capture::record_values(const std::string& name,
                            const NamedValues& values,
                            const NamedValues& follows,
                            at::TensorList written,
                            bool keep_bytes) {
  append_values(name, {values, follows, written, keep_bytes}, place(), lane_number());
}

void Capture::read_ahead(std::span<const BorderLeaf> leaves) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<at::Tensor> ahead;
  for (const BorderLeaf& leaf : leaves) {
    if (leaf.tensor.defined()) ahead.push_back(leaf.tensor);
  }
  tensors_.read_ahead(ahead);
}

std::uint32_t Capture::read_border(std::span<const BorderLeaf> leaves, BorderReading& into) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  RecordList records(border_);
  RecordingOrder order;
  order.keep_bytes = false;
  order.hands_out = true;
  order.beside = true;
  order.verify = options_.verify_inputs;
  std::uint32_t unread = 0;
  for (const BorderLeaf& leaf : leaves) {
    if (!leaf.tensor.defined()) {
      into.add(core::digest_bytes(leaf.bytes), nullptr, leaf.dtype, leaf.shape);
      continue;
    }
    records.restart();
    tensors_.add(leaf.tensor, "", order, records);
    bool is_read = true;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const core::TensorRecord& record = records[i];
      if (record.state == core::ContentState::kHashed) {
        into.add(record.digest, records.awaited(i), record.dtype, record.shape);
      } else if (record.state != core::ContentState::kComposite) {
        is_read = false;
      }
    }
    if (!is_read) ++unread;
  }
  note_unordered(nullptr);
  return unread;
}

void Capture::append(core::BlockRow row, const BorderReading& in, const BorderReading& out) {
  append_row({in, out}, [this, row = std::move(row)](std::span<const BorderReading> read) mutable {
    row.in = read[0].finish();
    row.out = read[1].finish();
    sink_->block(row);
  });
}

void Capture::append(core::ParameterRow row, const BorderReading& content) {
  append_row({content}, [this, row = std::move(row)](std::span<const BorderReading> read) mutable {
    row.digest = read[0].finish();
    sink_->parameter(row);
  });
}

template <typename Append>
void Capture::append_row(std::vector<BorderReading> borders, Append append) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    ++counts_.rows;
    if (pending_.empty() && std::ranges::all_of(borders, &BorderReading::is_settled)) {
      append(borders);
    } else {
      keep(std::make_unique<PendingRow>(std::move(borders), std::move(append)));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::keep(std::unique_ptr<Pending> pending) {
  pending_bytes_ += pending->bytes;
  pending_.push_back(std::move(pending));
  drain(options_.most_pending);
}

void Capture::drain(std::size_t most) {
  tensors_.devices().poll();
  while (!pending_.empty()) {
    if (const Awaited next = pending_.front()->next()) {
      if (pending_bytes_ <= most) return;
      if (most != 0) ++counts_.device_waits;
      DeviceDigests::wait_for(next);
      continue;
    }
    const std::unique_ptr<Pending> first = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= first->bytes;
    first->write(*this);
  }
}

void Capture::wait_for(const Arrivals& arrivals) {
  while (const Awaited next = arrivals.next()) DeviceDigests::wait_for(next);
}

void Capture::flush() noexcept {
  // A forked child has the records of its parent, and not its device.
  if (::getpid() != process_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_ || pending_.empty()) return;
  try {
    drain(0);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::write(core::OpRecord& record, const Arrivals& arrivals) {
  if (!arrivals.empty()) {
    tensors_.settle(arrivals, record.tensors);
    for (const auto& [slot, before, after] : arrivals.changes) {
      if (OpenWrite{0, 0, nullptr, before, after}.happened()) warn_of_stale(record, slot);
    }
  }
  ++counts_.operators;
  if (core::is_returned(record)) ++counts_.returned;
  counts_.tensors += record.tensors.size();
  counts_.substitutions += record.substitutions.size();
  if (record.generator) ++counts_.drawing_operators;
  sink_->append(record);
}

void Capture::adopt(ForeignRecords& foreign) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const auto here = sites_ == nullptr ? std::nullopt : sites_->current_phase();
  const core::Phase phase = here.value_or(core::Phase::kForward);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    for (const core::OpRecord& record : foreign.records) {
      (*foreign.indices)[static_cast<std::int64_t>(record.index)] =
          static_cast<std::int64_t>(next_index_++);
    }
    for (core::OpRecord& record : foreign.records) {
      renumber(record, foreign, phase);
      sink_->enter(record);
    }
    for (core::OpRecord& record : foreign.records) {
      keep_contents(record, foreign);
      if (is_settled({})) {
        write(record, {});
      } else {
        keep(std::make_unique<PendingRecord>(std::move(record), Arrivals()));
      }
    }
    if (!foreign.failure.empty()) {
      throw core::run_failed(core::lane_text(foreign.lane) + ": " + foreign.failure);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::renumber(core::OpRecord& record, const ForeignRecords& foreign, core::Phase phase) {
  const auto here = [&](std::int64_t index) {
    const auto found = foreign.indices->find(index);
    return found == foreign.indices->end() ? core::kNoProducer : found->second;
  };
  record.index = static_cast<std::uint64_t>(here(static_cast<std::int64_t>(record.index)));
  record.parent = here(record.parent);
  record.phase = phase;
  record.step = step();
  record.lane = foreign.lane;
  for (core::TensorRecord& tensor : record.tensors) {
    tensor.producer = here(tensor.producer);
    if (tensor.storage >= 0) tensor.storage += foreign.first_storage;
  }
}

void Capture::keep_contents(core::OpRecord& record, const ForeignRecords& foreign) {
  const bool wanted = options_.keep_ops.empty() || core::contains(options_.keep_ops, record.index);
  for (core::TensorRecord& tensor : record.tensors) {
    if (!tensor.stored) continue;
    tensor.stored = false;
    if (!wanted) continue;
    const core::ContentKey key = tensor.content_key();
    const auto bytes = sink_->has_content(key) ? std::nullopt : foreign.read(key);
    tensor.stored = bytes ? sink_->put_content(key, *bytes) : sink_->has_content(key);
  }
}

void Capture::number(core::OpRecord& record, const Place& place, std::uint32_t lane) {
  record.index = next_index_++;
  record.site = place.site;
  record.phase = place.phase.value_or(core::Phase::kForward);
  record.step = step();
  record.lane = lane;
}

void Capture::append_values(const std::string& name,
                            const ToldValues& told,
                            const Place& place,
                            std::uint32_t lane) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    core::OpRecord& record = value_records_[name];
    if (!record.op) {
      record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
    }
    number(record, place, lane);
    note_last(record, false);
    sink_->enter(record);
    Arrivals arrivals;
    fill_values(told, record, arrivals);
    if (is_settled(arrivals)) {
      write(record, arrivals);
    } else {
      keep(std::make_unique<PendingRecord>(record, std::move(arrivals)));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::fill_values(const ToldValues& told, core::OpRecord& record, Arrivals& arrivals) {
  const NamedValues& values = told.values;
  RecordList tensors(record.tensors);
  const auto each_written = [&](const auto& tell) {
    for (const at::Tensor& tensor : told.written) {
      for_each_storage(
          tensor, [&](const c10::Storage& storage) { tell(tensors_.storages().find(storage)); });
    }
  };
  each_written([](StorageEntry& entry) { entry.written_by(core::kNoProducer); });
  std::vector<at::Tensor> ahead;
  for (const auto& [path, value] : values) {
    if (value.isTensor()) ahead.push_back(value.toTensor());
  }
  tensors_.read_ahead(ahead);
  RecordingOrder order;
  order.beside = true;
  order.keep_bytes = told.keep_bytes;
  const auto add = [&](const at::Tensor& tensor, const std::string& slot) {
    const std::size_t index = tensors_.add(tensor, slot, order, tensors);
    if (!core::is_returned(record)) tensors_.note_number(tensor, index, tensors);
    return static_cast<std::uint32_t>(index);
  };
  const auto build = [&](const c10::IValue& value, const std::string& path, core::Value& into) {
    build_value(value, IntegerMeaning::kNumber, path, packed_, std::ref(add), into);
  };
  record.arguments.resize(values.size() + told.follows.size());
  auto argument = record.arguments.begin();
  for (const NamedValues* part : {&values, &told.follows}) {
    for (const auto& [path, value] : *part) {
      argument->name = path;
      build(value, path, (argument++)->value);
    }
  }
  // As an input it is what it was to every operator; what came out of the program is a value,
  // whoever wrote it.
  order.role = core::TensorRole::kOutput;
  order.hands_out = true;
  each_written(
      [&](StorageEntry& entry) { entry.set_writer(static_cast<std::int64_t>(record.index)); });
  record.results.resize(values.size());
  auto result = record.results.begin();
  for (const auto& [path, value] : values) build(value, path, *result++);
  tensors.finish();
  arrivals = std::move(tensors.arrivals);
  note_raced(record);
  note_unordered(&record);
}

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
