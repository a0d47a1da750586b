// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/method_runner.h"

#include <ATen/core/class_type.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <utility>

#include "dumpers/torchscript/detail/interpreter_site.h"
#include "dumpers/torchscript/detail/marker.h"

namespace repro_check::torchscript {

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

}  // namespace repro_check::torchscript
