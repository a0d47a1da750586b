// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/marker.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <vector>

#include "dumpers/capture/engine/lane.h"

namespace repro_check::torchscript {
namespace {

using torch::jit::Node;
using torch::jit::Operator;
using torch::jit::Stack;
using torch::jit::Value;

template <typename Work>
Operator marker(const char* schema, Work work) {
  return Operator(schema, torch::jit::Operation(work), c10::AliasAnalysisKind::CONSERVATIVE);
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

}  // namespace

void register_marker() {
  static const torch::jit::RegisterOperators registered(
      std::vector<decltype(torch::jit::OperatorGenerator(
          "", [](Stack&) {}, c10::AliasAnalysisKind::CONSERVATIVE))>{
          marker("repro_check::at(int id) -> ()", go_on),
          marker("repro_check::begin_fork(bool optimize) -> ()", begin_fork),
          marker("repro_check::end_fork() -> ()", [](Stack&) { capture::end_fork(); }),
          marker("repro_check::leave_thread() -> ()", [](Stack&) { capture::leave_thread(); })});
}

void insert_marker(Node* node, std::int64_t id) {
  insert_before(node, "repro_check::at", {constant_before(node, id)});
}

void mark_fork(Node* fork, bool optimize) {
  insert_before(fork, "repro_check::begin_fork", {constant_before(fork, optimize)});
  insert_before(fork->next(), "repro_check::end_fork", {});
}

void mark_wait(Node* wait) { insert_before(wait, "repro_check::leave_thread", {}); }

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

std::int64_t current_mark() noexcept { return capture::place_here().value_or(kNowhere); }
std::int64_t last_mark() noexcept { return capture::place_of_lane().value_or(kNowhere); }

}  // namespace repro_check::torchscript
