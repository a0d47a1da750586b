// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/marker.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <vector>

namespace repro_check::torchscript {
namespace {

thread_local std::int64_t mark = kNowhere;

}  // namespace

void register_marker() {
  using torch::jit::Operator;
  static const torch::jit::RegisterOperators registered(
      std::vector<decltype(torch::jit::OperatorGenerator(
          "", [](torch::jit::Stack&) {}, c10::AliasAnalysisKind::CONSERVATIVE))>{
          Operator("repro_check::at(int id) -> ()",
                   torch::jit::Operation(
                       [](torch::jit::Stack& stack) { mark = torch::jit::pop(stack).toInt(); }),
                   c10::AliasAnalysisKind::CONSERVATIVE)});
}

void insert_marker(torch::jit::Node* node, std::int64_t id) {
  torch::jit::Graph& graph = *node->owningGraph();
  const torch::jit::WithInsertPoint guard(node);
  torch::jit::Value* number = graph.insertConstant(id);
  static const auto kind = c10::Symbol::fromQualString("repro_check::at");
  graph.insertNode(graph.create(kind, {number}, 0));
}

std::int64_t current_mark() noexcept { return mark; }
void reset_mark() noexcept { mark = kNowhere; }

}  // namespace repro_check::torchscript
