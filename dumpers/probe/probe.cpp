// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/probe.h"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/told.h"
#include "core/tensor/unread.h"
#include "core/text/secrets.h"
#include "core/text/text.h"
#include "core/trace/hook_failures.h"
#include "core/trace/program_plan.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/capture/settings/environment.h"
#include "dumpers/capture/tensors/sample_digests.h"
#include "dumpers/capture/tensors/tensor_sums.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/probe/block_calls.h"
#include "dumpers/probe/first_operator.h"
#include "dumpers/probe/program_sites.h"
#include "dumpers/probe/python_frames.h"
#include "dumpers/probe/worker_batches.h"
#include "dumpers/stub/stub.h"

namespace repro_check::probe {
namespace {

using core::told;

/// Whether there is a recording, of a process that this one was forked from.
bool is_forked_child();
class Recording;
const Recording& recording_of_parent();

capture::CaptureOptions options_of(const core::ProgramPlan& plan) {
  return {plan, plan.disable_dropout, plan.rng, /*unseen_writes=*/true};
}

/// The recording of this process. Made once, and never destroyed: threads of the program may run
/// operators until the process is gone.
class Recording {
 public:
  Recording(const std::string& directory, const core::ProgramPlan& plan)
      : bare_(plan.bare),
        observes_(!plan.bare && plan.depth != core::DumpDepth::kBlocks),
        manifest_(core::manifest_of(plan)) {
    std::vector<core::Setting> generators;
    if (plan.seed) capture::seed_generators(*plan.seed, generators);
    describe(plan, std::move(generators));
    core::RecordedPart part = plan;
    // What ranks exchange inside of a step is read: what the step leaves does not tell it.
    if (plan.depth == core::DumpDepth::kBlocks) part.optimizer = core::OptimizerReading::kOperators;
    sites_.record_only(std::move(part));
    if (plan.depth == core::DumpDepth::kBlocks) {
      blocks_.emplace(plan, sites_);
      watch_first_operator();
    }
    sites_.begin_work();
    capture_.emplace(options_of(plan), sink_.emplace(directory), &sites_);
    sink_->begin(manifest_);
    sites_.leave_phase(core::Phase::kSetup);
    scope_.emplace(*capture_);
    begin_step(0);
  }

  /// Of a worker process of a data loader, which has no dump of its own. Where it was forked, this
  /// takes the place of the recording of its parent.
  struct Worker {
    std::string directory;
  };
  Recording(const Worker& worker, const core::ProgramPlan& plan)
      : bare_(false), observes_(true), stores_(plan.level == core::DumpLevel::kTensor) {
    core::RecordedPart part;
    part.phases = plan.phases;
    part.optimizer = core::OptimizerReading::kOperators;
    sites_.record_only(std::move(part));
    capture::CaptureOptions options = options_of(plan);
    options.keep_ops.clear();  // which these are, who takes the batch knows
    capture_.emplace(options, batches_.emplace(worker.directory), &sites_);
    sites_.enter_phase(core::Phase::kData);
    scope_.emplace(*capture_);
  }

  [[nodiscard]] bool is_worker() const { return batches_.has_value(); }

  /// Of a worker: it has made a batch.
  void end_batch(const std::string& name) {
    capture_->flush();
    batches_->close(name, capture_->warnings());
    // Whoever takes the next one may never have seen this one's contents.
    if (stores_) capture_->forget_contents();
  }

  /// Appends what a worker did for a batch that it handed out.
  void take_batch(const std::filesystem::path& directory, const repro_check_worker& worker) {
    if (!sites_.runs_model(capture_->step())) {
      std::filesystem::remove_all(directory);
      return;
    }
    if (!std::filesystem::exists(directory)) {
      if (unseen_workers_++ > 0) return;
      return add_warning("operators of worker " + std::to_string(worker.number) +
                         " of a data loader were not recorded: " + worker.missing);
    }
    WorkerBatch batch(directory);
    std::filesystem::remove_all(directory);
    for (const std::string& text : batch.warnings) {
      if (worker_warnings_.insert(text).second) add_warning("in a worker: " + text);
    }
    auto& indices = indices_of_workers_[worker.process];
    constexpr std::size_t kMostKnown = std::size_t{1} << 16U;  // who read what has the latest
    if (indices.size() > kMostKnown) indices.clear();
    sites_.count(batch.records.size());
    constexpr unsigned kStorages = 32;  // bits
    capture::ForeignRecords records{std::move(batch.records),
                                    core::worker_lane(worker.number),
                                    static_cast<std::int64_t>(worker.process + 1) << kStorages,
                                    &indices,
                                    [&](const core::ContentKey& key) { return batch.read(key); },
                                    std::move(batch.failure)};
    capture_->adopt(records);
  }

  [[nodiscard]] bool has_ended() const { return ended_; }
  /// No operator is intercepted: there is only what Python says.
  [[nodiscard]] bool is_bare() const { return bare_; }
  [[nodiscard]] bool is_of_this_process() const { return ::getpid() == process_; }
  [[nodiscard]] bool is_of_this_thread() const { return std::this_thread::get_id() == thread_; }

  void end() {
    if (ended_ || is_worker()) return;
    ran_unread_ = ran_unread();  // before operators of our own run
    ended_ = true;
    scope_.reset();
    // Behind the scope, which settles a call that raised.
    const capture::CaptureCounts& counts = counts_ = capture_->counts();
    capture_->rethrow_failure();
    for (std::string& text : capture_->warnings()) manifest_.warnings.push_back(std::move(text));
    capture_.reset();  // waits for threads that are inside of an operator
    // Not before: a team of threads that is there before the program forks can hang its children.
    // In one that was forked, a team that its parent had hangs it.
    if (!is_forked_) {
      for (core::EnvironmentFact& fact : capture::probe_numbers("cpu")) {
        manifest_.environment.push_back(std::move(fact));
      }
    }
    manifest_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
    if (!counts.accelerator.empty()) manifest_.device = counts.accelerator;
    for (core::EnvironmentFact& fact : sites_.generators().facts()) add_fact(std::move(fact));
    settle_settings();
    settle_roots();
    summarise(counts);
    const std::lock_guard lock(noting_);
    sink_->finish(manifest_);
  }

  [[nodiscard]] bool ran_unread() const {
    return ended_ ? ran_unread_ : blocks_ && operators() == 0 && ran_operator();
  }

  [[nodiscard]] std::uint64_t operators() const {
    const capture::CaptureCounts counts = ended_ ? counts_ : capture_->counts();
    return counts.operators + counts.rows;
  }

  void name(const at::Tensor& tensor, const std::string& name, core::NamedTensorKind kind) {
    const char* prefix = kind == core::NamedTensorKind::kInput ? "input:" : "state:";
    capture_->name_tensor(tensor, prefix + name);
    if (kind == core::NamedTensorKind::kParameter) {
      sites_.name_parameter(tensor.unsafeGetTensorImpl(), name);
    }
    if (!named_.emplace(name, kind).second) return;
    for (const core::TensorRecord& record : capture_->describe(tensor, name)) {
      if (record.state != core::ContentState::kHashed) continue;
      manifest_.named_tensors.push_back(
          {kind, record.slot, record.dtype, record.shape, record.digest});
    }
  }

  void name_root(const std::string& until_now, const std::string& name) {
    roots_.insert_or_assign(until_now, name);
  }

  /// In a child that was forked.
  void let_go() noexcept {
    if (sink_) sink_->let_go();
  }

  /// Said in every report.
  void add_warning(std::string text) { manifest_.warnings.push_back(std::move(text)); }
  /// Those of ranks are in the journal at once: a rank may be killed, and is one of several then.
  void add_fact(core::EnvironmentFact fact) {
    const bool is_of_rank = fact.name.starts_with(core::kOfRank) &&
                            !fact.name.starts_with(core::kUnwrapped) &&
                            !fact.name.starts_with(core::kMesh);
    manifest_.environment.push_back(std::move(fact));
    if (is_of_rank && capture_) capture_->tell(manifest_);
  }
  /// Of the text a digest is kept: it may hold what is nobody else's business. Of a rank its first
  /// line is shown beside those of the others, and no value in it that may be a secret.
  void set_raised(core::RaisedException raised, std::string_view first_line) {
    manifest_.end.emplace().exception = std::move(raised);
    if (first_line.empty()) return;
    const bool keeps_values = core::keeps_values(manifest_.configuration);
    manifest_.environment.push_back(
        {std::string(core::kRaisedText),
         keeps_values ? std::string(first_line) : core::without_secrets(first_line)});
  }

  /// Any thread.
  void note_failed(std::string_view where, std::string_view error, std::uint64_t count) {
    const std::lock_guard lock(noting_);
    core::count_failure(manifest_.notes, where, error, count);
  }

  /// On the thread that trains. In steps that are not recorded the engine is off there.
  void begin_step(std::uint32_t step, bool of_ancestors = true) {
    capture_->set_step(step, of_ancestors);
    sites_.begin_step();
    if (blocks_) sites_.read_contents(blocks_->are_recorded(step));
    const bool wanted = observes_ && sites_.is_recorded(step);
    if (!wanted || !intercepts_) capture_->forget_contents();
    intercepts_ = wanted;
    include_key();
  }

  /// Steps that are not recorded have the key from here on, where there is one.
  void keep_key() {
    keeps_key_ = observes_;
    if (is_of_this_thread()) include_key();
  }

  void include_key() {
    c10::impl::tls_set_dispatch_key_included(capture::kCaptureKey, intercepts_ || keeps_key_);
  }

  void enter_step(bool plain) {
    sites_.enter_step(capture_->next_index(), plain);
    if (!ProgramSites::hides_step()) return;
    hidden_step() = {.had_key = c10::impl::tls_is_dispatch_key_included(capture::kCaptureKey)};
    if (!keeps_key_) c10::impl::tls_set_dispatch_key_included(capture::kCaptureKey, false);
  }

  void leave_step() {
    if (ProgramSites::hides_step()) {
      c10::impl::tls_set_dispatch_key_included(capture::kCaptureKey, hidden_step().had_key);
      if (!hidden_step().is_told) capture_->forget_contents();
    }
    if (const auto opened = sites_.leave_step(capture_->next_index())) {
      core::OpRanges& kept = manifest_.trace.keep_ops;
      kept.push_back(*opened);
      kept = core::united(std::move(kept));
    }
  }

  /// What the operators of the step that the calling thread has made wrote, where they were not
  /// recorded. PyTorch's own leave alone what has no gradient.
  static std::vector<at::Tensor> written_unseen(const capture::NamedValues& values) {
    std::vector<at::Tensor> written;
    if (!ProgramSites::hides_step()) return written;
    hidden_step().is_told = true;
    std::set<std::string_view> graded;
    for (const auto& [name, value] : values) {
      const std::string_view text = name;
      if (text.starts_with(core::kGradientPrefix)) {
        graded.insert(text.substr(core::kGradientPrefix.size()));
      }
    }
    for (const auto& [name, value] : values) {
      const std::string_view text = name;
      const bool is_written = text.starts_with(core::kStatePrefix) ||
                              (text.starts_with(core::kParameterPrefix) &&
                               graded.contains(text.substr(core::kParameterPrefix.size())));
      if (is_written && value.isTensor()) written.push_back(value.toTensor());
    }
    return written;
  }

  ProgramSites& sites() { return sites_; }
  /// Null where operators are recorded.
  BlockCalls* blocks() { return blocks_ ? &*blocks_ : nullptr; }
  /// Of a recording of blocks, else null.
  core::BlockSummary* block_summary() {
    return manifest_.trace.blocks ? &*manifest_.trace.blocks : nullptr;
  }
  /// Null once the recording has ended.
  capture::Capture* capture() { return ended_ || !capture_ ? nullptr : &*capture_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// What is asked of libraries may wait in a forked child for threads that it does not have.
  void describe_as(const Recording& parent) {
    manifest_.settings = parent.manifest_.settings;
    manifest_.environment = parent.manifest_.environment;
  }

  void describe(const core::ProgramPlan& plan, std::vector<core::Setting> generators) {
    manifest_.created = core::utc_now();
    if (is_forked_) return describe_as(recording_of_parent());
    for (core::EnvironmentFact& fact : capture::read_settings()) {
      manifest_.settings.push_back({fact.name, fact.value, fact.value});
    }
    capture::put_found(plan.found, manifest_.settings);
    for (core::Setting& setting : generators) manifest_.settings.push_back(std::move(setting));
    // On a thread of its own, with which the team of OpenMP that it makes ends: a child that is
    // forked later would wait for the team of this one.
    manifest_.environment = std::async(std::launch::async, &capture::read_environment).get();
    if (plan.no_sync) add_fact({std::string(core::kNoSync), "true"});
    if (plan.workers) add_fact({std::string(core::kWorkers), "true"});
  }

  /// What the program has left them at: it may have set some by no function that is watched. Each
  /// thread has a number of threads of its own, and a loader's sets the one that new ones begin
  /// with.
  void settle_settings() {
    if (is_forked_) return;
    for (const core::EnvironmentFact& fact : capture::read_settings()) {
      if (fact.name.starts_with("threads.")) continue;
      const auto setting = std::ranges::find(manifest_.settings, fact.name, &core::Setting::name);
      if (setting != manifest_.settings.end()) setting->used = fact.value;
    }
  }

  void settle_roots() {
    if (roots_.empty()) return;
    sink_->name_roots(roots_);
    for (core::NamedTensor& tensor : manifest_.named_tensors) {
      tensor.name = core::with_root(std::move(tensor.name), roots_);
    }
    for (core::EnvironmentFact& fact : manifest_.environment) {
      fact.name = core::with_root(std::move(fact.name), roots_);
    }
  }

  /// A step whose operators are not recorded, on the calling thread.
  struct HiddenStep {
    bool had_key = false;
    bool is_told = false;  ///< what it left is recorded
  };
  static HiddenStep& hidden_step() {
    thread_local HiddenStep step;
    return step;
  }

  void summarise(const capture::CaptureCounts& counts) {
    core::TraceSummary& trace = manifest_.trace;
    trace.operators = counts.operators;
    trace.tensors = counts.tensors;
    trace.substitutions = counts.substitutions;
    trace.drawing_operators = counts.drawing_operators;
    if (trace.blocks && counts.unread_borders > 0) {
      trace.blocks->unopened.push_back({std::string(core::kUnreadContent), counts.unread_borders});
    }
  }

  const pid_t process_ = ::getpid();
  const bool is_forked_ = is_forked_child();
  const std::thread::id thread_ = std::this_thread::get_id();
  const Clock::time_point begun_ = Clock::now();
  bool bare_;
  bool observes_;  ///< operators
  std::optional<journal::JournalSink> sink_;
  std::optional<BatchSink> batches_;  ///< of a worker, in the place of the sink
  bool stores_ = false;
  core::RunManifest manifest_;
  std::mutex noting_;  ///< of manifest_.notes
  // Of workers that made batches for this process.
  std::map<std::uint64_t, std::unordered_map<std::int64_t, std::int64_t>> indices_of_workers_;
  std::set<std::string> worker_warnings_;
  std::uint64_t unseen_workers_ = 0;  ///< batches
  std::map<std::string, core::NamedTensorKind> named_;
  core::RootNames roots_;
  ProgramSites sites_;
  std::optional<BlockCalls> blocks_;
  std::optional<capture::Capture> capture_;
  std::optional<capture::Capture::Scope> scope_;
  capture::CaptureCounts counts_;  ///< once it has ended
  bool ran_unread_ = false;        ///< likewise
  bool intercepts_ = true;
  std::atomic<bool> keeps_key_ = false;
  std::atomic<bool> ended_ = false;
};

std::atomic<Recording*> latest = nullptr;

Recording* recording() { return latest.load(); }

const Recording& recording_of_parent() { return *recording(); }

bool is_forked_child() { return recording() != nullptr && !recording()->is_of_this_process(); }

void let_go_in_child() {
  if (recording() != nullptr) recording()->let_go();
}

/// Where the preloaded library notes processes that load LibTorch.
std::filesystem::path* notes_folder = nullptr;

void note_unrecorded() {
  try {
    std::ofstream(*notes_folder / (std::to_string(::getpid()) + ".libtorch"), std::ios::binary)
        << std::ifstream("/proc/self/cmdline", std::ios::binary).rdbuf();
  } catch (const std::exception&) {
    // There is no more that can be said.
  }
}

/// Null in a child that was forked, and before and after the recording.
capture::Capture* active() {
  return recording() != nullptr && recording()->is_of_this_process() ? recording()->capture()
                                                                     : nullptr;
}

at::Tensor borrowed(void* tensor) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
      static_cast<c10::TensorImpl*>(tensor)));
}

/// What follows from the state that a step of an optimizer leaves, and is small at any level.
capture::NamedValues numbers_of_step(const capture::NamedValues& values) {
  // By name: two runs may give their optimizers the same parameters in another order.
  const std::multimap<std::string_view, c10::IValue> by_name(values.begin(), values.end());
  std::array<capture::SumOrder, 2> orders{capture::SumOrder{true, {}}, {false, {}}};
  auto& [gradients, parameters] = orders;
  for (const auto& [name, value] : by_name) {
    if (name.starts_with(core::kGradientPrefix)) gradients.tensors.push_back(value.toTensor());
    if (name.starts_with(core::kParameterPrefix)) parameters.tensors.push_back(value.toTensor());
  }
  // A rank that holds a shard does not know the norm of the whole.
  const bool sharded = std::ranges::any_of(
      values, [](const auto& value) { return !core::placed_name(value.first).part.empty(); });
  if (sharded) gradients.tensors.clear();
  const c10::impl::ExcludeDispatchKeyGuard unseen(capture::kCaptureKey);
  capture::add_up(orders);
  capture::NamedValues numbers;
  if (gradients.sums) numbers.emplace_back(core::kGradientNorm, capture::norm_of(*gradients.sums));
  if (const auto& sums = parameters.sums) {
    numbers.emplace_back(core::kParameterSketch, std::vector<double>(sums->begin(), sums->end()));
  }
  return numbers;
}

capture::NamedValues samples_of_batch(const capture::NamedValues& values) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, value] : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
  }
  std::vector<std::int64_t> digests = capture::sample_digests(tensors);
  if (digests.empty()) return {};
  return {{std::string(core::kSampleDigests), std::move(digests)}};
}

/// Whether the front end tells it of what the record holds already.
bool is_said_beside(std::string_view record, std::string_view name) {
  return record == core::kClipRecord &&
         (name.starts_with(core::kLocalNormPrefix) || name == core::kLocalElements ||
          name == core::kLocalEpsilon);
}

/// At the place of a tensor: there is a text.
constexpr std::uintptr_t kIsText = 1;

/// What is said beside the values of a record, and compared by nobody.
capture::NamedValues following_from(std::string_view record, const capture::NamedValues& values) {
  if (record == core::kStepRecord) return numbers_of_step(values);
  if (record == core::kBatchRecord) return samples_of_batch(values);
  return {};
}

/// What a region returns, where code was generated for it: kernels that nobody records have written
/// it, perhaps into memory that a recorded operator had filled before.
std::vector<at::Tensor> written_by_generated_code(const capture::NamedValues& values) {
  std::vector<at::Tensor> written;
  bool is_generated = false;
  for (const auto& [name, value] : values) {
    is_generated |= name == core::kRegionOperators;
    if (value.isTensor()) written.push_back(value.toTensor());
  }
  return is_generated ? written : std::vector<at::Tensor>();
}

/// For what may not fail: the engine keeps a failure of its own, and repro_check_end() says it. Any
/// other is a note, of the function that was called.
template <typename Work>
void when_active(Work&& work, const char* called = __builtin_FUNCTION()) noexcept {
  const char* why = told([&] {
    if (capture::Capture* capture = active()) work(*capture);
  });
  if (why == nullptr) return;
  static_cast<void>(
      told([&, error = std::string(why)] { recording()->note_failed(called, error, 1); }));
}

/// Of the calling thread. Not destroyed with it: the capture may be gone by then.
struct ThreadScope {
  capture::Capture* capture = nullptr;  ///< of which it is
  capture::Capture::Scope* scope = nullptr;
};

ThreadScope& thread_scope() {
  thread_local ThreadScope scope;
  return scope;
}

constexpr const char* kUnseenThreads = "operators of threads that it starts were not recorded";

constexpr std::uint32_t kNoLane = 0xffffffff;

/// A thread that nobody announced: which work it gets is chance, so what it runs is of no lane.
void begin_native_thread() {
  when_active([](capture::Capture& /*capture*/) {
    if (recording()->is_worker()) return;
    recording()->sites().begin_work();
    recording()->include_key();
  });
}

/// Threads that Python does not start are told by the library that is preloaded, where it is.
void watch_native_threads() {
  using Watch = void(void (*)());
  if (auto* watch = reinterpret_cast<Watch*>(::dlsym(RTLD_DEFAULT, "repro_check_watch_threads"))) {
    watch(&begin_native_thread);
  }
}

/// Of a program without Python. Never destroyed: it is used while the process exits.
class ProgramProcess {
 public:
  ProgramProcess(const std::string& plan, const std::string& text)
      : directory_(std::filesystem::path(plan).parent_path() / std::to_string(::getpid())) {
    state_.process = ::getpid();
    state_.parent = ::getppid();
    if (const char* why = begin(text)) {
      state_.failure = why;
    } else {
      state_.notes.emplace_back("modules, steps and names of parameters, which only Python tells");
    }
    write();
  }

  [[nodiscard]] bool records() const { return state_.failure.empty(); }

  /// On another thread than the one that began it stays unfinished.
  void end() {
    if (state_.ended || ::getpid() != state_.process || !recording()->is_of_this_thread()) return;
    state_.ended = true;
    if (const char* why = repro_check_end()) state_.failure = why;
    write();
  }

 private:
  const char* begin(const std::string& text) {
    const char* why = told([&] {
      const core::DeterminismMode mode = core::program_plan_from_json_text(text).determinism;
      if (mode == core::DeterminismMode::kOff) return;
      at::Context& context = at::globalContext();
      context.setDeterministicAlgorithms(true, mode == core::DeterminismMode::kWarn);
      context.setDeterministicCuDNN(true);
      context.setBenchmarkCuDNN(false);
    });
    if (why == nullptr) why = repro_check_begin(directory_.c_str(), text.c_str());
    if (why == nullptr) {
      recording()->add_warning(
          "a program without Python: modules, steps and names of parameters are not known");
      recording()->sites().leave_phase(core::Phase::kForward);
    }
    return why;
  }

  /// Whole or not at all: written beside, then renamed.
  void write() {
    state_.operators = records() ? repro_check_operators() : 0;
    state_.unread = records() && repro_check_ran_unread() != 0;
    std::filesystem::path file = directory_;
    file += ".json";
    std::filesystem::path beside = file;
    beside += ".new";
    std::ofstream(beside, std::ios::binary) << to_json_text(state_);
    std::filesystem::rename(beside, file);
  }

  std::filesystem::path directory_;
  core::ProcessState state_;
};

ProgramProcess* program_process = nullptr;

void end_program() {
  static_cast<void>(told([] { program_process->end(); }));
}

}  // namespace

const char* repro_check_begin(const char* directory, const char* plan) {
  return told([&] {
    // One that has ended stays: threads may be in it, or hold a scope of it.
    if (recording() != nullptr && !recording()->has_ended() && recording()->is_of_this_process()) {
      return;
    }
    const bool is_first = recording() == nullptr;
    latest = new Recording(directory, core::program_plan_from_json_text(plan));
    if (!is_first) return;
    pthread_atfork(nullptr, nullptr, &let_go_in_child);
    if (std::getenv("REPRO_CHECK_EXEC") != nullptr) {
      notes_folder = new std::filesystem::path(std::filesystem::path(directory).parent_path());
      capture::tell_of_unrecorded_child(&note_unrecorded);
      watch_native_threads();
    }
  });
}

const char* repro_check_end() {
  return told([] {
    if (recording() != nullptr && recording()->is_of_this_process()) {
      recording()->end();
    }
  });
}

void repro_check_let_be() { capture::expect_unrecorded_child(); }

void repro_check_cells(void* numbers) { know_cells(numbers); }

void repro_check_fact(const char* name, const char* value) {
  when_active([&](capture::Capture&) { recording()->add_fact({name, value}); });
}

void repro_check_raised(const char* type,
                        const char* file,
                        std::uint64_t line,
                        const char* text,
                        const char* first_line,
                        const char* thread) {
  when_active([&](capture::Capture&) {
    recording()->set_raised({type, file, line, core::digest_bytes(std::string_view(text)), thread},
                            first_line);
  });
}

void repro_check_failed_hook(const char* where, const char* error, std::uint64_t count) {
  when_active([&](capture::Capture&) { recording()->note_failed(where, error, count); });
}

void repro_check_watch_generator(const char* name,
                                 const void* state,
                                 std::size_t size,
                                 std::size_t position) {
  when_active([&](capture::Capture&) {
    recording()->sites().generators().watch(
        {name, static_cast<const std::byte*>(state), size, position});
  });
}

std::uint64_t repro_check_operators() {
  return recording() == nullptr ? 0 : recording()->operators();
}

int repro_check_ran_unread() { return recording() != nullptr && recording()->ran_unread() ? 1 : 0; }

void repro_check_define_module(std::uint32_t number, const char* path, const char* type) {
  when_active([&](capture::Capture&) { recording()->sites().define_module(number, path, type); });
}

void repro_check_enter_module(std::uint32_t number, int in_eval) {
  when_active([&](capture::Capture&) { recording()->sites().enter_module(number, in_eval != 0); });
}

void repro_check_leave_module() {
  when_active([](capture::Capture&) { recording()->sites().leave_module(); });
}

int repro_check_enter_block_module(std::uint32_t number) {
  bool reads = false;
  when_active([&](capture::Capture& capture) {
    recording()->sites().enter_module(number);
    reads = recording()->blocks() != nullptr && recording()->blocks()->are_recorded(capture.step());
  });
  return reads ? 1 : 0;
}

void repro_check_leave_block_module() {
  when_active([](capture::Capture&) {
    recording()->sites().leave_module();
    if (!ProgramSites::is_in_module()) BlockCalls::leave_all();
  });
}

namespace {

Border border_of(const char* kinds, const void* words, const void* bytes, std::uint32_t unopened) {
  return {kinds,
          static_cast<const std::uint64_t*>(words),
          static_cast<const std::byte*>(bytes),
          unopened};
}

}  // namespace

std::uint32_t repro_check_begin_block(std::uint32_t number,
                                      int training,
                                      const char* kinds,
                                      const void* words,
                                      const void* bytes,
                                      std::uint32_t unopened) {
  std::uint32_t unread = 0;
  when_active([&](capture::Capture& capture) {
    if (BlockCalls* blocks = recording()->blocks()) {
      unread =
          blocks->begin(capture, number, training != 0, border_of(kinds, words, bytes, unopened));
    }
  });
  return unread;
}

std::uint32_t repro_check_end_block(std::uint32_t number,
                                    const char* kinds,
                                    const void* words,
                                    const void* bytes,
                                    std::uint32_t unopened) {
  std::uint32_t unread = 0;
  when_active([&](capture::Capture& capture) {
    if (BlockCalls* blocks = recording()->blocks()) {
      unread = blocks->end(capture, number, border_of(kinds, words, bytes, unopened));
    }
  });
  return unread;
}

void repro_check_unopened(const char* type, std::uint64_t count) {
  when_active([&](capture::Capture&) {
    if (core::BlockSummary* blocks = recording()->block_summary()) {
      blocks->unopened.push_back({type, count});
    }
  });
}

void repro_check_not_seen(const char* path) {
  when_active([&](capture::Capture&) {
    if (core::BlockSummary* blocks = recording()->block_summary()) {
      blocks->not_seen.emplace_back(path);
    }
  });
}

std::uint32_t repro_check_parameters(std::int64_t step,
                                     std::size_t count,
                                     const char* names,
                                     void* const* tensors) {
  std::uint32_t read_in = 0;
  when_active([&](capture::Capture& capture) {
    read_in = step < 0 ? capture.step() : static_cast<std::uint32_t>(step);
    std::vector<capture::BorderLeaf> leaves(count);
    for (std::size_t i = 0; i < count; ++i) leaves[i].tensor = borrowed(tensors[i]);
    capture.forget_contents();  // optimizers write in ways that move no version counter
    capture.read_ahead(leaves);
    for (const capture::BorderLeaf& leaf : leaves) {
      core::ParameterRow row{read_in, names, std::nullopt};
      names += row.name.size() + 1;
      capture::BorderReading content;
      static_cast<void>(capture.read_border({&leaf, 1}, content));
      capture.append(std::move(row), content);
    }
  });
  return read_in;
}

void repro_check_enter_phase(int phase) {
  when_active([&](capture::Capture&) {
    recording()->sites().enter_phase(static_cast<core::Phase>(phase));
  });
}

void repro_check_leave_phase(int next) {
  when_active([&](capture::Capture&) {
    recording()->sites().leave_phase(next < 0 ? std::nullopt
                                              : std::optional(static_cast<core::Phase>(next)));
  });
}

int repro_check_enter_step(int plain) {
  when_active([&](capture::Capture&) { recording()->enter_step(plain != 0); });
  return ProgramSites::hides_step() ? 0 : 1;
}

void repro_check_leave_step() {
  when_active([](capture::Capture&) { recording()->leave_step(); });
}

void repro_check_unread(int entered) {
  when_active([&](capture::Capture&) { recording()->sites().mark_unread(entered != 0); });
}

void repro_check_expect_reductions() {
  when_active([](capture::Capture&) { recording()->sites().expect_reductions(); });
}

void repro_check_step(int of_ancestors) {
  when_active([&](capture::Capture& capture) {
    recording()->begin_step(capture.step() + 1, of_ancestors != 0);
  });
}

void repro_check_keep_key() {
  when_active([](capture::Capture&) { recording()->keep_key(); });
}

void repro_check_unseen_writes(const char* why) {
  when_active([&](capture::Capture& capture) {
    capture.forget_contents();
    capture.add_warning(why);
  });
}

void repro_check_shared(void* tensor) {
  when_active([&](capture::Capture& capture) { capture.note_shared(borrowed(tensor)); });
}

void repro_check_read(void* tensor) {
  if (c10::impl::tls_is_dispatch_key_excluded(capture::kCaptureKey)) return;
  when_active([&](capture::Capture& capture) {
    const at::Tensor read = borrowed(tensor);
    if (!capture.may_hold_untold(read)) return;
    capture.record_values(
        std::string(core::kReadRecord), {{std::string(core::kOnlyTensor), read}}, {}, {});
  });
}

void repro_check_written(void* tensor) {
  if (c10::impl::tls_is_dispatch_key_excluded(capture::kCaptureKey)) return;
  when_active([&](capture::Capture& capture) {
    const at::Tensor written = borrowed(tensor);
    capture.record_values(std::string(core::kWrittenRecord),
                          {{std::string(core::kOnlyTensor), written}},
                          {},
                          {written});
  });
}

int repro_check_exclude(int excluded) {
  const bool before = c10::impl::tls_is_dispatch_key_excluded(capture::kCaptureKey);
  c10::impl::tls_set_dispatch_key_excluded(capture::kCaptureKey, (excluded & 1) != 0);
  // LibTorch excludes the key as well, inside of what a class of tensors does.
  const bool was_hidden = ProgramSites::hide((excluded & 2) != 0);
  return (before ? 1 : 0) + (was_hidden ? 2 : 0);
}

void repro_check_name(void* tensor, const char* name, int kind) {
  when_active([&](capture::Capture&) {
    recording()->name(borrowed(tensor), name, static_cast<core::NamedTensorKind>(kind));
  });
}

void repro_check_name_root(const char* until_now, const char* name) {
  when_active([&](capture::Capture&) { recording()->name_root(until_now, name); });
}

void repro_check_values(const char* record,
                        std::size_t count,
                        const char* names,
                        void* const* tensors,
                        const double* numbers,
                        const char* texts) {
  when_active([&](capture::Capture& capture) {
    capture::NamedValues values;
    capture::NamedValues follows;
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view name = names;
      names += name.size() + 1;
      if (reinterpret_cast<std::uintptr_t>(tensors[i]) == kIsText) {
        const std::string_view text = texts;
        texts += text.size() + 1;
        follows.emplace_back(name, std::string(text));
        continue;
      }
      (is_said_beside(record, name) ? follows : values)
          .emplace_back(
              name,
              tensors[i] == nullptr ? c10::IValue(numbers[i]) : c10::IValue(borrowed(tensors[i])));
    }
    std::ranges::move(following_from(record, values), std::back_inserter(follows));
    const bool is_step = record == core::kStepRecord;
    if (is_step || record == core::kBatchRecord) {
      for (auto& [name, text] : recording()->sites().generators().read()) {
        follows.emplace_back(std::move(name), std::move(text));
      }
    }
    std::vector<at::Tensor> written;
    if (is_step) written = Recording::written_unseen(values);
    if (record == core::kRegionRecord) written = written_by_generated_code(values);
    capture.record_values(
        record, values, follows, written, recording()->sites().keeps_values(capture.step()));
  });
}

void repro_check_norms(std::size_t count, void* const* tensors, double* norms) {
  std::fill_n(norms, count, std::numeric_limits<double>::quiet_NaN());
  when_active([&](capture::Capture&) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(capture::kCaptureKey);
    std::vector<capture::SumOrder> orders;
    for (void* tensor : std::span(tensors, count)) orders.push_back({true, {borrowed(tensor)}});
    capture::add_up(orders);
    for (std::size_t i = 0; i < count; ++i) {
      if (orders[i].sums) norms[i] = capture::norm_of(*orders[i].sums);
    }
  });
}

void repro_check_new_memory(void* storage) {
  when_active([&](capture::Capture& capture) {
    capture.note_new_memory(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
        static_cast<c10::StorageImpl*>(storage))));
  });
}

const char* repro_check_lane() {
  thread_local std::array<char, 64> text;  // longer than any lane's
  text = {};
  when_active([&](capture::Capture& capture) {
    core::lane_text(capture.lane_number()).copy(text.data(), text.size() - 1);
  });
  return text.data();
}

const void* repro_check_place() {
  const void* place = nullptr;
  when_active([&](capture::Capture&) { place = python_frames(); });
  return place;
}

void repro_check_order(const repro_check_epoch* epoch,
                       std::size_t count,
                       const std::int64_t* samples) {
  when_active([&](capture::Capture& capture) {
    const ProgramSites::Elsewhere at(static_cast<const PythonChain*>(epoch->place));
    capture::NamedValues values;
    if (samples != nullptr) {
      values.emplace_back(core::kOrderSamples, std::vector<std::int64_t>(samples, samples + count));
    }
    capture::NamedValues told{{std::string(core::kSampler), std::string(epoch->sampler)},
                              {std::string(core::kOrderLoader), epoch->loader},
                              {std::string(core::kOrderEpoch), epoch->epoch},
                              {std::string(core::kOrderWorkers), epoch->workers}};
    if (epoch->unseen != nullptr) {
      told.emplace_back(core::kOrderUnseen, std::string(epoch->unseen));
    }
    capture.record_values(std::string(core::kOrderRecord), values, told);
  });
}

void repro_check_group(const void* group,
                       const char* name,
                       std::size_t count,
                       const std::int64_t* ranks) {
  when_active([&](capture::Capture& capture) {
    capture.name_group(group, name, std::vector<std::int64_t>(ranks, ranks + count));
  });
}

const char* repro_check_begin_worker(const char* directory, const char* plan) {
  return told([&] {
    latest = new Recording(Recording::Worker{directory}, core::program_plan_from_json_text(plan));
  });
}

const char* repro_check_end_batch(const char* name) {
  return told([&] {
    if (active() != nullptr && recording()->is_worker()) recording()->end_batch(name);
  });
}

const char* repro_check_take_batch(const char* directory, const repro_check_worker* worker) {
  return told([&] {
    if (active() != nullptr) recording()->take_batch(directory, *worker);
  });
}

std::uint32_t repro_check_fork_thread() {
  std::uint32_t lane = kNoLane;
  when_active([&](capture::Capture& capture) {
    if (recording()->is_worker()) {
      // What sends its batches is none of the program's.
      if (recording()->is_of_this_thread()) capture.add_warning(kUnseenThreads);
      return;
    }
    lane = capture.fork_lane().value_or(kNoLane);
  });
  return lane;
}

void repro_check_begin_thread(std::uint32_t lane) {
  when_active([&](capture::Capture& capture) {
    if (thread_scope().capture == &capture || recording()->is_bare()) return;
    if (recording()->is_worker()) return;
    recording()->sites().begin_work();
    thread_scope() = {
        &capture,
        new capture::Capture::Scope(capture, lane == kNoLane ? std::nullopt : std::optional(lane))};
    if (recording()->blocks() != nullptr) recording()->include_key();
  });
}

void repro_check_begin_program(const char* plan, repro_check_hooks* hooks) {
  static_cast<void>(told([&] {
    std::ifstream file(plan, std::ios::binary);
    program_process =
        new ProgramProcess(plan, std::string{std::istreambuf_iterator<char>(file), {}});
    if (!program_process->records()) return;
    // After all of LibTorch's own, and so before them.
    std::atexit(&end_program);
    std::at_quick_exit(&end_program);
    *hooks = {
        &repro_check_fork_thread, &repro_check_begin_thread, &repro_check_end_thread, &end_program};
  }));
}

void repro_check_end_thread() {
  // Of a capture that is gone nothing may be touched any more.
  when_active([](capture::Capture& capture) {
    const ThreadScope held = std::exchange(thread_scope(), {});
    if (held.capture == &capture) delete held.scope;
  });
}

}  // namespace repro_check::probe
