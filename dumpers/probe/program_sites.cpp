// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/program_sites.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>

#include "dumpers/capture/torch/torch_compat.h"

#if REPRO_CHECK_TORCH_AT_LEAST(2, 1)
#include <torch/csrc/autograd/graph_task.h>
#endif

namespace repro_check::probe {
namespace {

/// What Python's hooks told of the calling thread.
struct Told {
  static constexpr std::int64_t kNoPass = -1;
  struct Module {
    std::uint32_t number;
    bool in_backward;  ///< entered there: a forward pass again
    bool in_eval;      ///< in evaluation mode
  };
  bool is_told = false;         ///< of modules, and of what is between
  std::vector<Module> modules;  ///< entered and not left
  bool evaluates = false;       ///< the outermost of them, or that which was left last: without
                                ///< gradients
  std::int64_t accumulated = kNoPass;  ///< the backward pass that has accumulated a gradient here
  std::optional<core::Phase> phase;
  bool hidden = false;  ///< none of what runs here is the program's
  int unread = 0;       ///< calls entered and not left of which no contents are wanted
  capture::Reading of_step = capture::Reading::kAll;  ///< of an optimizer, that runs here
  std::uint64_t opened = 0;                           ///< the first operator of that
  const PythonChain* elsewhere = nullptr;
  core::Phase between = core::Phase::kForward;  ///< outside of modules
};

Told& told() {
  thread_local Told thread;
  return thread;
}

/// No module is entered.
constexpr std::uint32_t kNoModule = 0;

// Releases before 2.1 do not say where a backward pass stands.
/// Told::kNoPass outside of all.
std::int64_t backward_pass() {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 1)
  return torch::autograd::get_current_graph_task_id();
#else
  return Told::kNoPass;
#endif
}

/// Whether it may run what the program has written: a backward() of its own, or a hook.
bool calls_python(torch::autograd::Node& node) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
  if (!node.tensor_pre_hooks().empty()) return true;
#endif
  return !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         std::string_view(typeid(node).name()).find("PyNode") != std::string_view::npos;
}

bool in_backward() { return backward_pass() != Told::kNoPass; }

auto running_node() {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 1)
  return torch::autograd::get_current_node();
#else
  return std::shared_ptr<torch::autograd::Node>();
#endif
}

/// Of the accelerator that it runs on.
template <class Node>
std::optional<int> device_index_of(Node& node) {
  const auto stream = [&] {
    if constexpr (requires { node.stream(); }) {
      return node.stream();
    } else {
      return node.stream(c10::DeviceType::CUDA);
    }
  }();
  if (!stream.has_value()) return std::nullopt;
  return stream->device_index();
}

}  // namespace

void ProgramSites::define_module(std::uint32_t number, std::string path, std::string type) {
  const std::lock_guard<std::mutex> lock(mutex_);
  modules_[number] = {std::move(path), std::move(type)};
}

void ProgramSites::enter_module(std::uint32_t number, bool in_eval) {
  Told& thread = told();
  thread.is_told = true;
  if (thread.modules.empty()) thread.evaluates = !c10::GradMode::is_enabled();
  thread.modules.push_back({number, in_backward(), in_eval});
}

void ProgramSites::leave_module() {
  Told& thread = told();
  if (thread.modules.empty()) return;
  thread.modules.pop_back();
  if (!thread.modules.empty() || in_backward()) return;
  thread.between = thread.evaluates ? core::Phase::kEval : core::Phase::kLoss;
}

bool ProgramSites::is_in_module() { return !told().modules.empty(); }

std::string ProgramSites::path_of(std::uint32_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = modules_.find(number);
  return known == modules_.end() ? "" : known->second.first;
}

void ProgramSites::begin_work() { told() = {}; }

void ProgramSites::enter_phase(core::Phase phase) {
  told().is_told = true;
  told().phase = phase;
}

void ProgramSites::leave_phase(std::optional<core::Phase> next) {
  told().phase.reset();
  if (next) told().between = *next;
}

void ProgramSites::mark_unread(bool entered) { told().unread += entered ? 1 : -1; }

bool ProgramSites::hide(bool hidden) { return std::exchange(told().hidden, hidden); }

void ProgramSites::enter_step(std::uint64_t first, bool plain) {
  using capture::Reading;
  enter_phase(core::Phase::kOptimizer);
  if (part_.optimizer != core::OptimizerReading::kState) return;
  if (core::contains(part_.open_steps, first)) {
    told().of_step = Reading::kValues;
    told().opened = first;
  } else {
    told().of_step = plain ? Reading::kNone : Reading::kKept;
  }
}

std::optional<core::OpRange> ProgramSites::leave_step(std::uint64_t next) {
  const bool is_open = told().of_step == capture::Reading::kValues;
  told().of_step = capture::Reading::kAll;
  leave_phase(core::Phase::kForward);
  if (!is_open) return std::nullopt;
  return core::OpRange{told().opened, next - 1};
}

std::optional<int> ProgramSites::backward_device() const {
  const auto node = running_node();
  return node != nullptr ? device_index_of(*node) : std::nullopt;
}

bool ProgramSites::hides_step() { return told().of_step == capture::Reading::kNone; }

void ProgramSites::name_parameter(const c10::TensorImpl* parameter, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Site& site = parameters_[parameter];
  if (!site || site->module_path != name) site = make_site(name, "AccumulateGrad", nullptr);
}

ProgramSites::Elsewhere::Elsewhere(const PythonChain* place) { told().elsewhere = place; }

ProgramSites::Elsewhere::~Elsewhere() { told().elsewhere = nullptr; }

/// Places in all threads that have begun no step: what is there may be of a first one.
constexpr std::size_t kKeptOfOthers = 100'000;

void ProgramSites::begin_step() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t here = at::RecordFunction::currentThreadId();
  calls_[here].steps = true;
  std::size_t of_others = 0;
  for (const auto& [thread, calls] : calls_) of_others += calls.steps ? 0 : calls.made.size();
  for (auto& [thread, calls] : calls_) {
    if (thread != here && (calls.steps || of_others < kKeptOfOthers)) continue;
    calls.made.erase(calls.made.begin(),
                     calls.made.begin() + static_cast<std::ptrdiff_t>(calls.of_last_step));
    calls.of_last_step = calls.made.size();
  }
}

ProgramSites::Site ProgramSites::make_site(const std::string& path,
                                           const std::string& type,
                                           const PythonChain* chain) {
  auto site = std::make_shared<core::CallSite>();
  site->module_path = path;
  site->module_type = type;
  if (chain != nullptr) site->frames = chain->frames;
  return site;
}

ProgramSites::Site ProgramSites::forward_site() {
  const PythonChain* const here = python_frames();
  generators_.look(here == nullptr || here->frames.empty() ? nullptr : &here->frames.front());
  const PythonChain* chain = told().elsewhere != nullptr ? told().elsewhere : here;
  const std::uint32_t module = told().modules.empty() ? kNoModule : told().modules.back().number;
  const std::lock_guard<std::mutex> lock(mutex_);
  Site& site = sites_[{module, chain == nullptr ? 0 : chain->id}];
  if (!site) {
    const auto known = modules_.find(module);
    const bool named = known != modules_.end();
    site = make_site(named ? known->second.first : "", named ? known->second.second : "", chain);
  }
  note_call(site);
  return site;
}

/// Told before the call runs: the nodes that it makes have numbers from here on.
void ProgramSites::note_call(const Site& site) {
  const std::uint64_t next = at::sequence_number::peek();
  std::vector<std::pair<std::uint64_t, Site>>& made =
      calls_[at::RecordFunction::currentThreadId()].made;
  if (!made.empty() && made.back().first == next) {
    made.back().second = site;
  } else {
    made.emplace_back(next, site);
  }
}

ProgramSites::Site ProgramSites::backward_site(const torch::autograd::Node& node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto* accumulates = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
    told().accumulated = backward_pass();
    const auto known = parameters_.find(accumulates->variable.unsafeGetTensorImpl());
    return known == parameters_.end() ? nullptr : known->second;
  }
  const auto calls = calls_.find(node.thread_id());
  if (calls == calls_.end()) return nullptr;
  const auto& made = calls->second.made;
  const auto after = std::upper_bound(
      made.begin(), made.end(), node.sequence_nr(), [](std::uint64_t number, const auto& call) {
        return number < call.first;
      });
  return after == made.begin() ? nullptr : std::prev(after)->second;
}

ProgramSites::Site ProgramSites::hook_site(const Site& of, const PythonChain& hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Site& site = hooks_[{of, hook.id}];
  if (!site) site = make_site(of->module_path, of->module_type, &hook);
  return site;
}

bool ProgramSites::runs_model(std::uint32_t step) const {
  const bool is_over = part_.first_ops > 0 && recorded_ >= part_.first_ops;
  if (told().hidden || !is_recorded(step) || hides_step() || is_over) return false;
  return part_.phases.empty() ||
         std::ranges::find(part_.phases, current_phase().value_or(core::Phase::kForward)) !=
             part_.phases.end();
}

capture::Reading ProgramSites::reading() const {
  return told().unread > 0 || !reads_ ? capture::Reading::kNone : told().of_step;
}

std::shared_ptr<const core::CallSite> ProgramSites::current_site() {
  ++recorded_;
  if (current_phase() == core::Phase::kBackward) {
    const auto node = running_node();
    if (Site site = node ? backward_site(*node) : nullptr) {
      const PythonChain* hook = calls_python(*node) ? frames_of_hook() : nullptr;
      return hook == nullptr ? site : hook_site(site, *hook);
    }
  }
  return forward_site();
}

bool ProgramSites::calls_in_eval() const {
  const Told& thread = told();
  if (thread.modules.empty() || !thread.modules.back().in_eval) return false;
  return thread.modules.back().in_backward || !in_backward();
}

std::optional<core::Phase> ProgramSites::current_phase() const {
  const Told& thread = told();
  if (in_backward()) {
    const bool again = !thread.modules.empty() && thread.modules.back().in_backward;
    if (again) return core::Phase::kRecompute;
    // What hooks of gradients that are accumulated do runs in no node.
    const bool reduces = reduces_ && thread.accumulated == backward_pass() && !running_node();
    return reduces ? core::Phase::kReduce : core::Phase::kBackward;
  }
  if (thread.phase) return thread.phase;
  if (!thread.modules.empty()) {
    return thread.evaluates ? core::Phase::kEval : core::Phase::kForward;
  }
  // Behind a step and before the next batch, without gradients, a program looks at what it has.
  const bool looks =
      thread.is_told && thread.between == core::Phase::kForward && !c10::GradMode::is_enabled();
  return looks ? core::Phase::kEval : thread.between;
}

}  // namespace repro_check::probe
