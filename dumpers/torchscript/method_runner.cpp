// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/method_runner.h"

#include <ATen/core/class_type.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <utility>

#include "dumpers/torchscript/failures.h"

namespace repro_check::torchscript {
namespace {

/// What TorchScript's executor goes by, as the manifest names it.
struct Knob {
  const char* name;
  std::size_t (*read)();
  void (*turn)(bool on);  ///< null for what is only read
  bool is_switch = true;
};

const std::array<Knob, 6> kKnobs{{
    {"jit.optimize",
     [] { return std::size_t{torch::jit::getGraphExecutorOptimize()}; },
     [](bool on) { torch::jit::setGraphExecutorOptimize(on); }},
    {"jit.executor", [] { return std::size_t{torch::jit::getExecutorMode()}; }, nullptr},
    {"jit.profiling",
     [] { return std::size_t{torch::jit::getProfilingMode()}; },
     [](bool on) { torch::jit::getProfilingMode() = on; }},
    {"jit.profiled_runs",
     [] { return std::size_t{torch::jit::getNumProfiledRuns()}; },
     nullptr,
     false},
    {"jit.tensorexpr_fuser",
     [] { return std::size_t{torch::jit::tensorExprFuserEnabled()}; },
     [](bool on) { torch::jit::setTensorExprFuserEnabled(on); }},
    {"jit.autocast",
     [] { return std::size_t{torch::jit::autocastEnabled()}; },
     [](bool on) { torch::jit::setAutocastMode(on); }},
}};

std::string text_of(const Knob& knob, std::size_t value) {
  return knob.is_switch ? (value != 0 ? "true" : "false") : std::to_string(value);
}

}  // namespace

ExecutorPin::ExecutorPin(bool optimize) : pinned_(!optimize) {
  for (const Knob& knob : kKnobs) found_.push_back(knob.read());
  for (const Knob& knob : kKnobs) {
    if (pinned_ && knob.turn != nullptr) knob.turn(false);
  }
}

ExecutorPin::~ExecutorPin() {
  for (std::size_t i = 0; i < kKnobs.size(); ++i) {
    if (pinned_ && kKnobs[i].turn != nullptr) kKnobs[i].turn(found_[i] != 0);
  }
}

std::vector<core::Setting> ExecutorPin::settings() const {
  std::vector<core::Setting> settings;
  for (std::size_t i = 0; i < kKnobs.size(); ++i) {
    const Knob& knob = kKnobs[i];
    settings.push_back({knob.name, text_of(knob, found_[i]), text_of(knob, knob.read())});
  }
  return settings;
}

MethodRunner::MethodRunner(torch::jit::Module module,
                           torch::jit::Method method,
                           bool optimize,
                           configs::ModelMode mode)
    : module_(std::move(module)),
      paths_(module_),
      method_(std::move(method)),
      optimize_(optimize),
      mode_(mode),
      last_asked_(kNowhere),
      stopped_at_(kNowhere) {
  prepare_all();
  if (optimize_) mark_all_lanes();
}

// Hooks are part of calling a module, as `model(x)` does in Python; Module::forward skips them.
void MethodRunner::prepare_all() {
  code_ = prepare(method_.function());
  if (method_.name() != "forward") return;
  for (torch::jit::Function* hook : module_.type()->getForwardPreHooks()) {
    pre_hooks_.push_back(prepare(*hook));
  }
  for (torch::jit::Function* hook : module_.type()->getForwardHooks()) {
    hooks_.push_back(prepare(*hook));
  }
}

void MethodRunner::mark_all_lanes() {
  for (torch::jit::Function* function : module_._ivalue()->compilation_unit()->get_functions()) {
    torch::jit::GraphFunction* scripted = torch::jit::tryToGraphFunction(*function);
    if (scripted == nullptr) continue;
    scripted->ensure_defined();
    mark_lanes(*scripted->graph()->block());
  }
}

torch::jit::Code MethodRunner::prepare(torch::jit::Function& function) {
  InstrumentedGraph instrumented = instrument(module_, function, sites_);
  warn(instrumented);
  // Straight to the interpreter: an executor would run its passes once more, now over the whole of
  // the inlined graph, and drop what no single function could have dropped.
  return torch::jit::Code(instrumented.graph, function.name());
}

void MethodRunner::warn(const InstrumentedGraph& graph) {
  for (const std::string& seeding : graph.seeding) {
    warnings_.push_back("the model touches the generator itself, which no recorder sees: " +
                        seeding);
  }
  if (mode_ == configs::ModelMode::kAsSaved) return;
  const bool train = mode_ == configs::ModelMode::kTrain;
  const auto& fixed = train ? graph.fixed_in_evaluation : graph.fixed_in_training;
  if (fixed.empty()) return;
  warnings_.push_back(std::string("mode \"") + (train ? "train" : "eval") + "\" does not reach " +
                      std::to_string(fixed.size()) +
                      " operator(s) whose training flag is a constant of the graph (traced or "
                      "frozen so), first " +
                      fixed.front());
}

c10::IValue MethodRunner::run_graph(const torch::jit::Code& code, torch::jit::Stack stack) {
  stack.insert(stack.begin(), module_._ivalue());
  try {
    torch::jit::InterpreterState(code).run(stack);
  } catch (...) {
    stopped_at_ = last_mark();
    throw;
  }
  return std::move(stack.front());
}

c10::IValue MethodRunner::run(std::vector<c10::IValue> inputs) {
  if (optimize_) {
    return method_.name() == "forward" ? module_(std::move(inputs)) : method_(std::move(inputs));
  }
  for (const torch::jit::Code& hook : pre_hooks_) {
    const c10::IValue changed = run_graph(hook, {c10::ivalue::Tuple::create(inputs)});
    if (changed.isNone()) continue;
    inputs = changed.isTuple() ? changed.toTupleRef().elements().vec()
                               : std::vector<c10::IValue>{changed};
  }
  if (hooks_.empty()) return run_graph(code_, std::move(inputs));
  c10::IValue result = run_graph(code_, inputs);
  for (const torch::jit::Code& hook : hooks_) {
    c10::IValue changed = run_graph(hook, {c10::ivalue::Tuple::create(inputs), result});
    if (!changed.isNone()) result = std::move(changed);
  }
  return result;
}

std::shared_ptr<const core::CallSite> MethodRunner::current_site() {
  last_asked_.store(current_mark(), std::memory_order_relaxed);
  auto marked = optimize_ ? nullptr : sites_.at(current_mark());
  if (marked && !sites_.is_call(current_mark())) return marked;
  const InterpreterPlace place = interpreter_place();
  // Within a call that could not be inlined the marker knows the module, the interpreter the line.
  if (marked) return sites_.intern({marked->module_path, marked->module_type, place.frames});
  if (auto known = sites_.find(place.frames, place.names)) return known;
  if (place.frames.empty() && place.names.empty()) return nullptr;
  // A module reached by a second name is known by its first, as in named_modules().
  const ModuleName known = paths_.resolve(place.names);
  std::string path = known.type == place.module_type ? known.path : std::string();
  if (path.empty()) {
    for (const std::string& name : place.names) path += path.empty() ? name : "." + name;
  }
  return sites_.intern({std::move(path), place.module_type, place.frames});
}

bool MethodRunner::runs_model() const {
  return !optimize_ || !torch::jit::currentCallstack().empty();
}

bool MethodRunner::fills_memory() const { return !optimize_ && sites_.fills(current_mark()); }

std::shared_ptr<const core::CallSite> MethodRunner::place_between_operators() {
  const bool asked = stopped_at_ == last_asked_.load();
  if (optimize_ || asked || sites_.is_call(stopped_at_)) return nullptr;
  return sites_.at(stopped_at_);
}

namespace {

/// `op 57 aten::conv2d (backbone.conv1, model.py:40): <reason>` for an operator; what TorchScript
/// does by itself, `raise` or an index into a list, has no op index.
std::string message_for(const std::string& reason,
                        const capture::Capture& capture,
                        MethodRunner& runner) {
  const std::string last = capture.last_operator();
  const auto between = runner.place_between_operators();
  if (between) {
    const std::string place = capture::place_text(*between);
    return (place.empty() ? "the model" : place) + ": " + reason +
           (last.empty() ? " (before the first operator)" : " (after " + last + ")");
  }
  return (last.empty() ? "before the first operator" : last) + ": " + reason;
}

std::string hint_for(const std::exception& error, const std::optional<core::Dtype>& cast) {
  if (is_determinism_refusal(error)) {
    return "LibTorch has no deterministic kernel for this operator: replace it in the model, or "
           "record with \"determinism\": \"warn\", which runs it and reports the warning";
  }
  if (is_out_of_memory(error)) {
    return "memory ran out: use smaller inputs or a narrower dtype, or free memory on the device";
  }
  if (full_text(error).find("on the same device") != std::string::npos) {
    return "a tensor of the model stayed on the device that it was traced or saved on: trace the "
           "model on the device it is to run on, or make that tensor a buffer";
  }
  if (is_removed_call(error)) return kRemovedCallHint;
  if (cast) {
    return fmt::format(
        "\"dtype\" had cast inputs, parameters and buffers to {}, and neither what the model makes "
        "itself nor constants of its graph: see whether it runs without \"dtype\", or cast it "
        "before it is saved",
        core::dtype_name(*cast));
  }
  return "the model raised this itself: compare the inputs with what it expects at that place";
}

}  // namespace

core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner,
                        const std::optional<core::Dtype>& cast) {
  const std::string prefix = is_out_of_memory(error) ? "out of memory: " : "";
  return {core::ErrorKind::kRunFailed,
          message_for(prefix + first_useful_line(error), capture, runner),
          hint_for(error, cast)};
}

}  // namespace repro_check::torchscript
