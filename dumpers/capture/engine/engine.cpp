// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/text/glob.h"
#include "core/trace/lane.h"
#include "dumpers/capture/engine/substitution.h"
#include "dumpers/capture/engine/value_builder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

std::uint64_t next_engine_id() {
  static std::atomic<std::uint64_t> next = 1;
  return next++;
}

/// Texts kept of each kind of warning.
constexpr std::size_t kMaxWarnings = 100;

/// The frame is open, and the inside hidden, for the life of the guard.
class OpenFrame {
 public:
  OpenFrame(ThreadState& thread, Frame* frame, Inside inside)
      : thread_(thread), open_(frame != nullptr), hides_(inside == Inside::kWatched) {
    if (open_) thread_.open.push_back(frame);
    if (hides_) ++thread_.hidden;
  }
  OpenFrame(const OpenFrame&) = delete;
  OpenFrame& operator=(const OpenFrame&) = delete;
  OpenFrame(OpenFrame&&) = delete;
  OpenFrame& operator=(OpenFrame&&) = delete;
  ~OpenFrame() {
    if (hides_) --thread_.hidden;
    if (open_) thread_.open.pop_back();
  }

 private:
  ThreadState& thread_;
  bool open_;
  bool hides_;
};

bool matches_any(const std::vector<std::string>& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return core::glob_match(pattern, text);
  });
}

/// The thread's own, whichever engine it worked for last.
ThreadState& thread_state() {
  thread_local ThreadState thread;
  return thread;
}

/// `aten::conv2d (backbone.conv1, model.py:40)`
std::string call_text(const core::OperatorInfo& op, const core::CallSite* site) {
  if (site == nullptr) return op.full_name();
  std::string place = site->module_path;
  if (const core::SourceFrame* frame = core::display_frame(*site)) {
    place += fmt::format("{}{}:{}", place.empty() ? "" : ", ", frame->file, frame->line);
  }
  return place.empty() ? op.full_name() : fmt::format("{} ({})", op.full_name(), place);
}

void redispatch(const Call& call) { call.op.redispatchBoxed(call.keys, &call.stack); }

}  // namespace

std::string running_call() {
  const std::vector<Frame*>& open = thread_state().open;
  if (open.empty()) return {};
  const core::OpRecord& record = open.front()->record;
  return call_text(*record.op, record.site.get());
}

Engine::Engine(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites)
    : id_(next_engine_id()),
      options_(options),
      sink_(&sink),
      sites_(sites),
      host_rng_(options.seed),
      plans_(options.include, options.exclude),
      tensors_(options.level, options.unseen_writes, sink) {
  this_thread().lane = core::kMainLane;
}

ThreadState& Engine::this_thread() {
  ThreadState& thread = thread_state();
  if (thread.engine != id_) {
    thread = ThreadState{};
    thread.engine = id_;
  }
  return thread;
}

Engine::Place Engine::place() const {
  if (sites_ == nullptr) return {};
  return {sites_->current_site(), sites_->current_phase()};
}

std::optional<std::uint32_t> Engine::fork_lane() {
  LaneState* lane = LaneState::current();
  if (lane == nullptr || lane->engine() != id_ || !lane->is_held_here()) return std::nullopt;
  return lane->fork()->number();
}

std::shared_ptr<LaneState> Engine::begin_lane(std::optional<std::uint32_t> forked) {
  ThreadState& thread = this_thread();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (forked) thread.lane = forked;
  if (!thread.lane) thread.lane = core::forked_lane(core::kMainLane, lanes_begun_++);
  auto lane = std::make_shared<LaneState>(id_, *thread.lane);
  lane->hold();
  return lane;
}

const LaneState* Engine::inherited_lane() const noexcept {
  const LaneState* lane = LaneState::current();
  return lane != nullptr && lane->engine() == id_ ? lane : nullptr;
}

std::uint32_t Engine::lane_number() const noexcept {
  const LaneState* lane = inherited_lane();
  if (lane == nullptr) return core::pool_lane(core::kMainLane);
  return lane->is_held_here() ? lane->number() : core::pool_lane(lane->number());
}

bool Engine::is_of_program() const {
  const LaneState* lane = inherited_lane();
  if (lane == nullptr) return true;
  if (lane->is_launched_here()) return false;
  return sites_ == nullptr || !lane->is_held_here() || sites_->runs_model();
}

OperatorPlan* Engine::find_plan(const Call& call, ThreadState& thread) noexcept {
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

bool Engine::decomposes(const Call& call, const OperatorPlan& plan) const {
  if (!plan.composite) return false;
  constexpr c10::DispatchKeySet kBackends(c10::DispatchKeySet::FULL_AFTER,
                                          c10::DispatchKey::BackendSelect);
  const c10::DispatchKey backend = (call.keys & kBackends).highestPriorityTypeId();
  return backend == c10::DispatchKey::Undefined || !call.op.hasKernelForDispatchKey(backend);
}

void Engine::intercept(const Call& call) {
  if (failed_.load(std::memory_order_relaxed)) return redispatch(call);
  ThreadState& thread = this_thread();
  if (thread.open.empty() && !is_of_program()) return redispatch(call);
  OperatorPlan* plan = find_plan(call, thread);
  if (plan == nullptr) return redispatch(call);
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

void Engine::intercept_hidden(const Call& call, const OperatorPlan& plan, ThreadState& thread) {
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

bool Engine::draw_on_host(const Call& call, const OperatorPlan& plan, ThreadState& thread) {
  if (options_.rng != core::RngMode::kHost || plan.host_draw == HostDraw::kNone) return false;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  DrawTicket ticket{lane_number(), 0};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ticket.ordinal = host_draws_[ticket.lane];
  }
  const std::optional<core::GeneratorUse> use = host_rng_.draw(call.op, plan, call.stack, ticket);
  if (!use) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++host_draws_[ticket.lane];
  }
  if (thread.open.empty()) return true;
  core::OpRecord& record = thread.open.back()->record;
  const std::string argument =
      thread.hidden > 0 && record.op != plan.info ? fmt::format("{}(rng)", plan.info->name) : "rng";
  record.substitutions.push_back(
      {argument, "device", fmt::format("host, seed {}", use->seed), "rng: host"});
  if (!record.generator) {
    record.generator = use;
  } else {
    record.generator->drawn += use->drawn;
    record.generator->position_after = use->position_after;
  }
  return true;
}

void Engine::execute(const Call& call,
                     const OperatorPlan& plan,
                     ThreadState& thread,
                     Inside inside) {
  if (draw_on_host(call, plan, thread)) return;
  if (inside == Inside::kUnseen) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
    redispatch(call);
  } else {
    redispatch(call);
  }
}

void Engine::record(const Call& call,
                    OperatorPlan& plan,
                    ThreadState& thread,
                    Inside inside,
                    std::vector<core::Substitution> noted) {
  std::unique_ptr<Frame> frame = begin(call, plan, thread, std::move(noted));
  try {
    const OpenFrame open(thread, frame.get(), inside);
    execute(call, plan, thread, inside);
  } catch (...) {
    // The operator's own exception; it is not ours to change.
    raised(std::move(frame));
    throw;
  }
  end(call, std::move(frame), thread);
}

void Engine::name_tensor(const at::Tensor& tensor, const std::string& name) {
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

std::vector<core::TensorRecord> Engine::describe(const at::Tensor& tensor,
                                                 const std::string& slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<core::TensorRecord> records;
  RecordList list(records);
  RecordingOrder order;
  order.keep_bytes = false;
  tensors_.add(tensor, slot, order, list);
  return records;
}

NamedTensors Engine::unpack(const c10::IValue& object, const std::string& name) {
  class Collector final : public TensorVisitor {
   public:
    explicit Collector(PackedObjects& packed) : packed_(packed) {}

    std::uint32_t visit(const at::Tensor& tensor, const std::string& slot) override {
      tensors.emplace_back(slot, tensor);
      return 0;
    }
    std::optional<c10::IValue> state_of(const c10::IValue& value) override {
      return packed_.state_of(value);
    }
    NamedTensors tensors;

   private:
    PackedObjects& packed_;
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  Collector collector(packed_);
  core::Value unused;
  build_value(object, IntegerMeaning::kNumber, name, collector, unused);
  return std::move(collector.tensors);
}

void Engine::set_step(std::uint32_t step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_ = step;
}

void Engine::set_phase(core::Phase phase) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phase_ = phase;
}

CaptureCounts Engine::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CaptureCounts counts = counts_;
  counts.hashed_bytes = tensors_.hashed_bytes();
  return counts;
}

std::vector<std::string> Engine::warnings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return warnings_;
}

std::vector<std::string> Engine::unmatched_include() const {
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

void Engine::rethrow_failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) throw core::Error(*failure_);
}

std::string Engine::last_operator() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return describe_last();
}

std::string Engine::describe_last() const {
  if (last_.op == nullptr) return {};
  return fmt::format("op {} {}", last_.index, call_text(*last_.op, last_.site.get()));
}

void Engine::warn(std::string text) {
  if (warnings_.size() >= kMaxWarnings || !warned_.insert(text).second) return;
  warnings_.push_back(std::move(text));
}

void Engine::fail(std::exception_ptr why) noexcept {
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

void Engine::settle() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  try {
    append_raised();
  } catch (...) {
    fail(std::current_exception());
  }
}

bool Engine::is_excluded(const OperatorPlan& plan,
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

void Engine::note_stale(const Frame& frame) {
  if (!options_.verify_inputs) return;
  for (const std::string& slot : tensors_.take_stale()) {
    ++counts_.stale_inputs;
    warn(
        fmt::format("op {} {}: argument {} had been changed by something the recording did not see",
                    frame.record.index,
                    frame.plan->full_name,
                    slot));
  }
}

void Engine::note_raced(const core::OpRecord& record) {
  for (const std::string& slot : tensors_.take_raced()) {
    warn(fmt::format(
        "race on a tensor in use: op {} {}: {} was written by another thread while it was stored",
        record.index,
        record.op->full_name(),
        slot));
  }
}

}  // namespace repro_check::capture
