// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/method_runner.h"

#include <ATen/core/class_type.h>
#include <ATen/core/stack.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "dumpers/capture/engine/lane.h"
#include "dumpers/exported/marks.h"
#include "dumpers/torchscript/failures.h"

namespace repro_check::torchscript {

namespace {

// A deep call chain is cut: what helps a person are the innermost frames.
constexpr std::size_t kMaxFrames = 64;
constexpr std::size_t kMaxTraceText = std::size_t{256} << 10U;

std::optional<core::SourceFrame> parse_trace_line(std::string_view line) {
  // The tracer writes `path(line): function`.
  const std::size_t close = line.rfind("): ");
  if (close == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.rfind('(', close);
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  std::uint32_t number = 0;
  const char* end = line.data() + close;
  const auto parsed = std::from_chars(line.data() + open + 1, end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return core::SourceFrame{
      std::string(line.substr(0, open)), number, std::string(line.substr(close + 3))};
}

/// The tracer keeps a Python stack as the text of the source; anything else gives no frames.
std::vector<core::SourceFrame> parse_trace(const std::string& text) {
  std::vector<core::SourceFrame> frames;
  std::string_view rest(text);
  while (!rest.empty() && frames.size() < kMaxFrames) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const auto frame = parse_trace_line(rest.substr(0, end));
    if (!frame) return {};
    frames.push_back(*frame);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return frames;
}

using FileLine = std::tuple<std::string, std::size_t, std::size_t>;

core::SourceFrame frame_at(const FileLine& place, const std::string& function) {
  return {std::get<0>(place), static_cast<std::uint32_t>(std::get<1>(place)), function};
}

/// A call of a free function is saved without its source. What stands before it on the same line of
/// the saved code belongs to the same statement of the model.
std::vector<core::SourceFrame> frames_before(const torch::jit::SourceRange& range,
                                             const std::string& function) {
  for (std::size_t at = range.start(); at > 0; --at) {
    if (range.source()->char_at(at - 1) == '\n') break;
    const torch::jit::SourceRange earlier(range.source(), at - 1, at);
    const auto origin = earlier.findSourceRangeThatGenerated();
    if (!origin) continue;
    const auto place = origin->file_line_col();
    if (place && !std::get<0>(*place).empty()) return {frame_at(*place, function)};
  }
  return {};
}

std::string text_of(const std::vector<core::SourceFrame>& frames) {
  std::string text;
  for (const core::SourceFrame& frame : frames) {
    text += '\n' + frame.file + '\0' + std::to_string(frame.line) + '\0' + frame.function;
  }
  return text;
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= path.size() && !path.empty()) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    parts.push_back(path.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

/// Whether `path` is `names` with containers left out: their order kept, the last one the last.
bool fits(const std::string& path, const std::vector<std::string>& names) {
  const std::vector<std::string> parts = split_path(path);
  if (names.empty() || parts.empty()) return names.empty() && parts.empty();
  if (parts.back() != names.back()) return false;
  auto at = names.begin();
  for (const std::string& part : parts) {
    if (at != names.end() && part == *at) ++at;
  }
  return at == names.end();
}

/// The same as frames_of(), and empty for code that was saved without its source.
std::vector<core::SourceFrame> own_frames_of(const torch::jit::SourceRange& range,
                                             const std::string& function) {
  const auto generating = range.findSourceRangeThatGenerated();
  const torch::jit::SourceRange& origin = generating ? *generating : range;
  if (!origin.source()) return {};
  if (origin.start() == 0 && origin.end() == origin.source()->size() &&
      origin.end() <= kMaxTraceText) {
    auto traced = parse_trace(origin.source()->text_str().str());
    if (!traced.empty()) return traced;
  }
  const auto place = origin.file_line_col();
  if (!place || std::get<0>(*place).empty()) return {};
  return {frame_at(*place, function)};
}

/// The lines of one source range: one in a scripted function, the whole Python stack of the trace
/// in a traced one, innermost first.
std::vector<core::SourceFrame> frames_of(const torch::jit::SourceRange& range,
                                         const std::string& function) {
  auto frames = own_frames_of(range, function);
  return frames.empty() && range.source() ? frames_before(range, function) : frames;
}

}  // namespace

std::int64_t SiteTable::add(const torch::jit::SourceRange& range,
                            const CallFrame& frame,
                            Place place) {
  core::CallSite site{frame.module_path, frame.module_type, frames_of(range, frame.function)};
  // A traced range tells the whole stack by itself.
  if (site.frames.size() <= 1) {
    for (const CallFrame* f = &frame; f->caller != nullptr; f = f->caller) {
      if (site.frames.size() >= kMaxFrames) break;
      auto calls = frames_of(f->call, f->caller->function);
      const bool traced = calls.size() > 1;
      site.frames.insert(site.frames.end(),
                         std::make_move_iterator(calls.begin()),
                         std::make_move_iterator(calls.end()));
      if (traced) break;
    }
  }
  place.site = intern(std::move(site));
  by_frames_.emplace(text_of(place.site->frames), place.site);
  places_.push_back(std::move(place));
  return static_cast<std::int64_t>(places_.size()) - 1;
}

std::shared_ptr<const core::CallSite> SiteTable::intern(core::CallSite site) {
  const std::string text = site.module_path + '\n' + site.module_type + text_of(site.frames);
  const std::lock_guard lock(mutex_);
  auto& known = by_text_[text];
  if (!known) known = std::make_shared<const core::CallSite>(std::move(site));
  return known;
}

std::shared_ptr<const core::CallSite> SiteTable::find(const std::vector<core::SourceFrame>& frames,
                                                      const std::vector<std::string>& names) const {
  std::shared_ptr<const core::CallSite> found;
  const auto [first, last] = by_frames_.equal_range(text_of(frames));
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second == found || !fits(entry->second->module_path, names)) continue;
    if (found) return nullptr;
    found = entry->second;
  }
  return found;
}

const Place& SiteTable::at(std::int64_t id) const {
  static const Place none;
  const bool known = id >= 0 && std::cmp_less(id, places_.size());
  return known ? places_[static_cast<std::size_t>(id)] : none;
}

ModulePaths::ModulePaths(const torch::jit::Module& root) : root_(root) { visit(root, ""); }

void ModulePaths::visit(const torch::jit::Module& module, const std::string& path) {
  if (!first_path_.emplace(module._ivalue().get(), path).second) return;
  for (const auto& child : module.named_children()) {
    visit(child.value, path.empty() ? child.name : path + "." + child.name);
  }
}

ModuleName ModulePaths::resolve(const std::vector<std::string>& chain) const {
  torch::jit::Module module = root_;
  for (const std::string& name : chain) {
    if (!module.hasattr(name)) break;
    const c10::IValue value = module.attr(name);
    if (!value.isModule()) break;
    module = value.toModule();
  }
  const auto known = first_path_.find(module._ivalue().get());
  const auto type = module.type()->name();
  return {known == first_path_.end() ? std::string() : known->second,
          type ? type->name() : std::string()};
}

namespace {

/// Where the TorchScript interpreter of this thread stands, by its own call stack.
struct InterpreterPlace {
  std::vector<core::SourceFrame> frames;  ///< innermost first; empty when none runs here
  std::vector<std::string> names;         ///< attribute names of the modules, containers left out
  std::string module_type;                ///< of the innermost module
};

/// An entry reads `layer(Linear)::forward`; `TOP` is the module that was run, `SELF` a method of
/// the module before it, and a free function has neither name nor type.
void take_module(const std::string& entry, InterpreterPlace& place) {
  const std::size_t open = entry.find('(');
  const std::size_t close = entry.find(')', open);
  if (open == std::string::npos || close == std::string::npos) return;
  const std::string name = entry.substr(0, open);
  place.module_type = entry.substr(open + 1, close - open - 1);
  if (name != "TOP" && name != "SELF") place.names.push_back(name);
}

InterpreterPlace interpreter_place() {
  InterpreterPlace place;
  for (const torch::jit::StackEntry& entry : torch::jit::currentCallstack()) {
    auto frames = frames_of(entry.range, entry.filename);
    const bool traced = frames.size() > 1;
    place.frames.insert(place.frames.end(),
                        std::make_move_iterator(frames.begin()),
                        std::make_move_iterator(frames.end()));
    if (traced) break;
  }
  for (const std::string& entry : torch::jit::currentModuleHierarchy()) take_module(entry, place);
  return place;
}

using torch::jit::Node;
using torch::jit::Operator;
using torch::jit::Stack;
using torch::jit::Value;

template <typename Work>
Operator marker(const char* schema, Work work) {
  return {schema, torch::jit::Operation(work), c10::AliasAnalysisKind::CONSERVATIVE};
}

Node* insert_before(Node* node, const char* name, at::ArrayRef<torch::jit::Value*> inputs) {
  torch::jit::Graph& graph = *node->owningGraph();
  const torch::jit::WithInsertPoint guard(node);
  return graph.insertNode(graph.create(c10::Symbol::fromQualString(name), inputs, 0));
}

Value* constant_before(Node* node, const c10::IValue& value) {
  const torch::jit::WithInsertPoint guard(node);
  return node->owningGraph()->insertConstant(value);
}

/// A setting of each thread, which pool threads do not inherit: what is compiled there would be
/// another program.
void keep_unoptimised() { torch::jit::setGraphExecutorOptimize(false); }

void go_on(Stack& stack) {
  const std::int64_t place = torch::jit::pop(stack).toInt();
  if (place != kNowhere) keep_unoptimised();
  capture::go_on_at(place);
}

void begin_fork(Stack& stack) {
  if (!torch::jit::pop(stack).toBool()) keep_unoptimised();
  capture::begin_fork();
}

/// Registers the operators, once a process.
void register_marker() {
  static const torch::jit::RegisterOperators registered(
      std::vector<decltype(torch::jit::OperatorGenerator(
          "", [](Stack&) {}, c10::AliasAnalysisKind::CONSERVATIVE))>{
          marker("repro_check::at(int id) -> ()", go_on),
          marker("repro_check::begin_fork(bool optimize) -> ()", begin_fork),
          marker("repro_check::end_fork() -> ()", [](Stack&) { capture::end_fork(); }),
          marker("repro_check::leave_thread() -> ()", [](Stack&) { capture::leave_thread(); })});
}

/// Puts a marker before `node`.
void insert_marker(Node* node, std::int64_t id) {
  insert_before(node, "repro_check::at", {constant_before(node, id)});
}

/// Puts markers around a fork: what its graph holds is a lane of its own.
/// @param optimize  what is forked goes through LibTorch's executor as it stands
void mark_fork(Node* fork, bool optimize) {
  insert_before(fork, "repro_check::begin_fork", {constant_before(fork, optimize)});
  insert_before(fork->next(), "repro_check::end_fork", {});
}

/// Puts a marker before a wait for a fork, after which another thread may run the rest.
void mark_wait(Node* wait) { insert_before(wait, "repro_check::leave_thread", {}); }

/// Marks forks and waits of a graph that LibTorch's executor will optimise, and nothing else.
void mark_lanes(torch::jit::Block& block) {
  for (Node* node = *block.nodes().begin(); node != block.return_node();) {
    Node* next = node->next();
    for (torch::jit::Block* inner : node->blocks()) mark_lanes(*inner);
    if (node->kind() == c10::prim::fork) {
      torch::jit::Block& forked = *node->g(c10::attr::Subgraph)->block();
      mark_lanes(forked);
      insert_marker(*forked.nodes().begin(), kNowhere);
      mark_fork(node, true);
    } else if (node->kind() == c10::aten::wait) {
      mark_wait(node);
      insert_marker(next, kNowhere);
    }
    node = next;
  }
}

/// What the last marker of the lane that this thread runs said; kNowhere before the first, and
/// where code without markers runs on a thread of its own.
std::int64_t current_mark() noexcept { return capture::place_here().value_or(kNowhere); }
/// The same of the lane that began on this thread, which may have gone on elsewhere.
std::int64_t last_mark() noexcept { return capture::place_of_lane().value_or(kNowhere); }

namespace prim = c10::prim;
namespace attr = c10::attr;
using torch::jit::Block;
using torch::jit::Function;
using torch::jit::Graph;
using torch::jit::GraphFunction;

// A file can be made to call exponentially many functions; past these, calls stay calls.
constexpr std::size_t kMaxNodes = 1'000'000;
constexpr std::size_t kMaxDepth = 400;

/// Nodes that move values about and never reach the dispatcher.
bool only_moves_values(const Node& node) {
  static const std::array kinds = {
      prim::Constant,       prim::GetAttr,    prim::SetAttr,        prim::ListConstruct,
      prim::TupleConstruct, prim::If,         prim::Loop,           prim::TupleUnpack,
      prim::ListUnpack,     prim::TupleIndex, prim::TupleSlice,     prim::DictConstruct,
      prim::CreateObject,   prim::isinstance, prim::unchecked_cast, prim::Uninitialized,
      prim::fork,           prim::With,       prim::Enter,          prim::Exit};
  return std::ranges::find(kinds, node.kind()) != kinds.end();
}

GraphFunction* callee_of(const Node& node) {
  if (node.kind() == prim::CallFunction) {
    const auto type = node.input(0)->type()->cast<c10::FunctionType>();
    return type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
  }
  if (node.kind() != prim::CallMethod) return nullptr;
  // Calls through an interface have no class here: they stay calls.
  const auto type = node.input(0)->type()->cast<c10::ClassType>();
  Function* method = type ? type->findMethod(node.s(attr::name)) : nullptr;
  return method == nullptr ? nullptr : torch::jit::tryToGraphFunction(*method);
}

/// The body of a forked function, or the like.
Graph* subgraph_of(const Node& node) {
  const bool has = node.hasAttribute(attr::Subgraph) &&
                   node.kindOf(attr::Subgraph) == torch::jit::AttributeKind::g;
  return has ? node.g(attr::Subgraph).get() : nullptr;
}

/// A chain of attributes from the self of the method that was run; empty when there is none.
using AttributeChain = std::optional<std::vector<std::string>>;

/// First inlines, then lets LibTorch's own passes run, then marks what is left of the nodes. What
/// ties a node to its frame meanwhile is the call stack it carries: passes hand it on.
class Instrumenter {
 public:
  Instrumenter(const torch::jit::Module& module, SiteTable& sites, bool as_it_is)
      : paths_(module), sites_(sites), as_it_is_(as_it_is) {}

  InstrumentedGraph run(Function& method) {
    method.ensure_defined();
    result_.graph = toGraphFunction(method).graph()->copy();
    self_ = result_.graph->inputs().at(0);
    const ModuleName root = paths_.resolve({});
    root_ = &frames_.emplace_back(CallFrame{nullptr, {}, method.name(), root.path, root.type});
    Block& body = *result_.graph->block();
    inline_range(*body.nodes().begin(), body.return_node(), {root_, {}}, {}, 0);
    if (!as_it_is_) torch::jit::runNooptPassPipeline(result_.graph);
    mark_block(*result_.graph->block());
    return std::move(result_);
  }

 private:
  struct Inlined {
    const CallFrame* frame = nullptr;
    std::vector<std::pair<Function*, torch::jit::SourceRange>> calls;  // outermost first
  };

  void inline_range(Node* first,
                    Node* end,
                    const Inlined& place,
                    const torch::jit::InlinedCallStackPtr& stack,
                    std::size_t depth) {
    for (Node* node = first; node != end;) {
      Node* next = node->next();
      ++visited_;
      if (stack) node->setCallStack(stack);
      GraphFunction* callee = callee_of(*node);
      if (callee != nullptr && depth < kMaxDepth && visited_ < kMaxNodes) {
        inline_call(node, *callee, place, depth);
      } else {
        inline_within(*node, place, stack, depth);
      }
      node = next;
    }
  }

  void inline_within(Node& node,
                     const Inlined& place,
                     const torch::jit::InlinedCallStackPtr& stack,
                     std::size_t depth) {
    for (Block* block : node.blocks()) {
      inline_range(*block->nodes().begin(), block->return_node(), place, stack, depth);
    }
    Graph* subgraph = subgraph_of(node);
    if (subgraph == nullptr) return;
    for (std::size_t i = 0; i < subgraph->inputs().size() && i < node.inputs().size(); ++i) {
      outer_value_[subgraph->inputs()[i]] = node.inputs()[i];
    }
    Block& body = *subgraph->block();
    inline_range(*body.nodes().begin(), body.return_node(), place, stack, depth);
  }

  void inline_call(Node* call, GraphFunction& callee, const Inlined& caller, std::size_t depth) {
    callee.ensure_defined();
    const bool is_method = call->kind() == prim::CallMethod;
    Inlined place{&new_frame(*call, callee, *caller.frame), caller.calls};
    place.calls.emplace_back(&callee, call->sourceRange());
    const auto stack = stack_of(place);
    const auto arguments = is_method ? call->inputs() : call->inputs().slice(1);
    Node* before = call->prev();
    {
      const torch::jit::WithInsertPoint guard(call);
      const auto results =
          torch::jit::insertGraph(*call->owningGraph(), *callee.graph(), arguments);
      for (std::size_t i = 0; i < results.size(); ++i) {
        call->output(i)->replaceAllUsesWith(results[i]);
      }
    }
    inline_range(before->next(), call, place, stack, depth + 1);
    call->destroy();
  }

  const CallFrame& new_frame(const Node& call, const Function& callee, const CallFrame& caller) {
    CallFrame frame = called(call, caller);
    frame.caller = &caller;
    frame.call = call.sourceRange();
    frame.function = callee.name();
    return frames_.emplace_back(std::move(frame));
  }

  /// The caller's frame, in the module whose method it calls.
  [[nodiscard]] CallFrame called(const Node& call, CallFrame frame) const {
    if (call.kind() != prim::CallMethod) return frame;
    if (const AttributeChain chain = chain_of(call.input(0))) {
      const ModuleName name = paths_.resolve(*chain);
      frame.module_path = name.path;
      frame.module_type = name.type;
    }
    return frame;
  }

  torch::jit::InlinedCallStackPtr stack_of(const Inlined& place) {
    torch::jit::InlinedCallStackPtr stack;
    for (std::size_t i = place.calls.size(); i-- > 0;) {
      const auto& [function, range] = place.calls[i];
      stack = stack ? c10::make_intrusive<torch::jit::InlinedCallStack>(stack, function, range)
                    : c10::make_intrusive<torch::jit::InlinedCallStack>(function, range);
    }
    stacks_.push_back(stack);
    frame_of_[stack.get()] = place.frame;
    return stack;
  }

  /// Follows attributes back to the self of the method that was run, out of forked functions too.
  AttributeChain chain_of(const Value* value) const {
    std::vector<std::string> chain;
    while (value != self_) {
      if (const auto outer = outer_value_.find(value); outer != outer_value_.end()) {
        value = outer->second;
        continue;
      }
      const Node* node = value->node();
      if (node->kind() != prim::GetAttr) return std::nullopt;
      chain.push_back(node->s(attr::name));
      value = node->input(0);
    }
    std::ranges::reverse(chain);
    return chain;
  }

  void mark_block(Block& block) {
    for (Node* node = *block.nodes().begin(); node != block.return_node();) {
      Node* next = node->next();
      for (Block* inner : node->blocks()) mark_block(*inner);
      if (Graph* subgraph = subgraph_of(*node)) mark_block(*subgraph->block());
      if (!only_moves_values(*node)) mark(*node);
      if (node->kind() == prim::fork) mark_fork(node, false);
      if (node->kind() == c10::aten::wait) mark_wait(node);
      node = next;
    }
  }

  [[nodiscard]] const CallFrame& frame_of(Node& node) {
    const auto stack = node.callstack();
    if (!stack) return frame_of_mark(node);
    const auto known = frame_of_.find(stack->get());
    return known == frame_of_.end() ? *root_ : *known->second;
  }

  /// Of a node of the method itself: an exported program has all of its modules in one method.
  [[nodiscard]] const CallFrame& frame_of_mark(Node& node) {
    const auto mark = exported::mark_of(node);
    if (!mark) return *root_;
    const auto [known, is_new] = frame_of_module_.try_emplace(mark->path, *root_);
    if (is_new) {
      known->second.module_path = mark->path;
      known->second.module_type = mark->type;
    }
    return known->second;
  }

  /// The tracer makes numbers of tensors by itself, `int(n)`, and gives that no line: it belongs to
  /// what takes the number.
  [[nodiscard]] const Node& placed(Node& node, const CallFrame& frame) {
    constexpr int kMaxSteps = 8;
    Node* at = &node;
    for (int step = 0; step < kMaxSteps; ++step) {
      if (&frame_of(*at) != &frame) return node;
      if (!own_frames_of(at->sourceRange(), frame.function).empty()) return *at;
      if (at->outputs().size() != 1 || at->output()->uses().empty()) return node;
      at = at->output()->uses().front().user;
    }
    return node;
  }

  void mark(Node& node) {
    const CallFrame& frame = frame_of(node);
    const bool is_call = node.kind() == prim::CallMethod || node.kind() == prim::CallFunction;
    const bool fills = node.kind() == c10::aten::tensor || node.kind() == c10::aten::as_tensor;
    const std::int64_t id = sites_.add(placed(node, frame).sourceRange(),
                                       is_call ? called(node, frame) : frame,
                                       {nullptr, is_call, fills});
    note_seeding(node, id);
    note_training_flag(node, id);
    insert_marker(&node, id);
  }

  void note_seeding(const Node& node, std::int64_t id) {
    const std::string kind = node.kind().toQualString();
    if (kind == "aten::manual_seed" || kind == "aten::seed" || kind == "aten::initial_seed") {
      result_.seeding.push_back(text_of(node, id));
    }
  }

  void note_training_flag(const Node& node, std::int64_t id) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (schema == nullptr) return;
    for (const char* name : {"train", "training"}) {
      const auto at = schema->argumentIndexWithName(name);
      if (!at || static_cast<std::size_t>(*at) >= node.inputs().size()) continue;
      const auto flag = torch::jit::toIValue(node.input(static_cast<std::size_t>(*at)));
      if (!flag || !flag->isBool()) continue;
      const bool drops =
          schema->argumentIndexWithName("p") || schema->argumentIndexWithName("dropout");
      result_.fixed_flags[id] = {flag->toBool(), drops, text_of(node, id)};
    }
  }

  /// `aten::dropout at model.py:12 (encoder.drop)`.
  [[nodiscard]] std::string text_of(const Node& node, std::int64_t id) const {
    const core::CallSite& site = *sites_.at(id).site;
    const core::SourceFrame* frame = core::display_frame(site);
    std::string text = node.kind().toQualString();
    if (frame != nullptr) text += " at " + frame->file + ":" + std::to_string(frame->line);
    if (!site.module_path.empty()) text += " (" + site.module_path + ")";
    return text;
  }

  ModulePaths paths_;
  SiteTable& sites_;
  bool as_it_is_;
  InstrumentedGraph result_;
  const Value* self_ = nullptr;
  const CallFrame* root_ = nullptr;
  std::deque<CallFrame> frames_;  // a deque, since frames point at one another
  std::vector<torch::jit::InlinedCallStackPtr> stacks_;  // so that no address is used twice
  std::unordered_map<const torch::jit::InlinedCallStack*, const CallFrame*> frame_of_;
  std::unordered_map<std::string, CallFrame> frame_of_module_;
  std::unordered_map<const Value*, const Value*> outer_value_;
  std::size_t visited_ = 0;
};

/// A private copy of the method's graph with every call to a scripted function inlined, from the
/// outside in, then the passes that LibTorch runs without optimisation, then a marker before each
/// node that can reach the dispatcher. So the same operators run in the same order as in the method
/// itself.
/// @param module  the object the method belongs to; module paths are read off its attributes
/// @param sites   receives the places
InstrumentedGraph instrument(const torch::jit::Module& module,
                             torch::jit::Function& method,
                             SiteTable& sites,
                             bool as_it_is) {
  register_marker();
  return Instrumenter(module, sites, as_it_is).run(method);
}

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
                           bool as_it_is)
    : module_(std::move(module)),
      paths_(module_),
      method_(std::move(method)),
      optimize_(optimize),
      as_it_is_(as_it_is),
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
  InstrumentedGraph instrumented = instrument(module_, function, sites_, as_it_is_);
  seeding_.insert(seeding_.end(), instrumented.seeding.begin(), instrumented.seeding.end());
  fixed_flags_.merge(instrumented.fixed_flags);
  // Straight to the interpreter: an executor would run its passes once more, now over the whole of
  // the inlined graph, and drop what no single function could have dropped.
  return torch::jit::Code(instrumented.graph, function.name());
}

std::vector<std::string> MethodRunner::warnings(const configs::RunSpec& run) const {
  std::vector<std::string> warnings;
  for (const std::string& seeding : seeding_) {
    warnings.push_back("the model uses the generator directly, which is not recorded: " + seeding);
  }
  if (run.model.mode == configs::ModelMode::kAsSaved) return warnings;
  const bool train = run.model.mode == configs::ModelMode::kTrain;
  std::vector<std::string_view> missed;
  bool drops = false;
  for (const auto& [id, flag] : fixed_flags_) {
    const bool ran = optimize_ || reached_.contains(id);
    if (!ran || flag.trains == train) continue;
    missed.push_back(flag.what);
    drops |= flag.drops;
  }
  if (missed.empty()) return warnings;
  const bool is_one = missed.size() == 1;
  warnings.push_back(fmt::format(
      R"(mode "{}" does not reach {} operator{} whose training flag is a constant{} {}{})",
      train ? "train" : "eval",
      missed.size(),
      is_one ? "" : "s",
      is_one ? ":" : ", first",
      missed.front(),
      drops && run.disable_dropout ? R"(; "disable_dropout" switches dropout off all the same)"
                                   : ""));
  return warnings;
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
  const std::int64_t mark = current_mark();
  last_asked_.store(mark, std::memory_order_relaxed);
  if (fixed_flags_.contains(mark)) {
    const std::lock_guard lock(reached_mutex_);
    reached_.insert(mark);
  }
  const auto [marked, is_call, fills] = optimize_ ? Place() : sites_.at(mark);
  if (marked && !is_call) return marked;
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

bool MethodRunner::runs_model(std::uint32_t /*step*/) const {
  return !optimize_ || !torch::jit::currentCallstack().empty();
}

bool MethodRunner::fills_memory() const { return !optimize_ && sites_.at(current_mark()).fills; }

std::shared_ptr<const core::CallSite> MethodRunner::place_between_operators() {
  const bool asked = stopped_at_ == last_asked_.load();
  const Place& place = sites_.at(stopped_at_);
  return optimize_ || asked || place.is_call ? nullptr : place.site;
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
  return "the model raised this error: compare the inputs with what it expects at this place";
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
