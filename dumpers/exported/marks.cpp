// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/marks.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace repro_check::exported {

using torch::jit::pop;
using torch::jit::Stack;

ModuleMark parse_mark(const std::string& entry) {
  const std::size_t type = entry.rfind(',');
  const std::size_t path =
      type == 0 || type == std::string::npos ? std::string::npos : entry.rfind(',', type - 1);
  if (path == std::string::npos || entry.starts_with('_')) return {};
  const std::string name = entry.substr(path + 1, type - path - 1);
  const std::string full_type = entry.substr(type + 1);
  return {name.substr(0, name.find('@')), full_type.substr(full_type.rfind('.') + 1)};
}

torch::jit::ScopePtr scope_of(const ModuleMark& mark) {
  const auto root = c10::make_intrusive<torch::jit::Scope>();
  return root->push(c10::Symbol::scope(mark.type + ' ' + mark.path));
}

std::optional<ModuleMark> mark_of(torch::jit::Node& node) {
  const torch::jit::ScopePtr scope = node.scope();
  if (!scope || scope->isBlank() || scope->isRoot()) return std::nullopt;
  const std::string text = scope->name().toUnqualString();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  return ModuleMark{text.substr(space + 1), text.substr(0, space)};
}

namespace {

void wrap_number(Stack& stack) {
  at::Tensor tensor = c10::scalar_to_tensor(pop(stack).toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  stack.emplace_back(std::move(tensor));
}

/// `3`, `2 to 64`, `2 or more`.
std::string bounds_text(std::int64_t least, std::int64_t most) {
  if (least == most) return std::to_string(least);
  const bool is_open = most == std::numeric_limits<std::int64_t>::max();
  return std::to_string(least) + (is_open ? " or more" : " to " + std::to_string(most));
}

void expect_tensor(Stack& stack) {
  const std::vector<std::int64_t> most = pop(stack).toIntVector();
  const std::vector<std::int64_t> least = pop(stack).toIntVector();
  pop(stack);  // the dtype
  const std::string name = pop(stack).toStringRef();
  const at::Tensor input = pop(stack).toTensor();
  TORCH_CHECK(static_cast<std::size_t>(input.dim()) == least.size(),
              "input \"",
              name,
              "\" has ",
              input.dim(),
              " dimensions, and the model was exported for ",
              least.size());
  for (std::size_t i = 0; i < least.size(); ++i) {
    const std::int64_t size = input.size(static_cast<std::int64_t>(i));
    TORCH_CHECK(size >= least[i] && size <= most[i],
                "input \"",
                name,
                "\" has size ",
                size,
                " in dimension ",
                i,
                ", and the model was exported for ",
                bounds_text(least[i], most[i]));
  }
}

void expect(Stack& stack) {
  const std::string otherwise = pop(stack).toStringRef();
  TORCH_CHECK(pop(stack).toBool(), otherwise);
}

template <typename Work>
torch::jit::Operator made_operator(const std::string& schema, Work work) {
  return {schema, torch::jit::Operation(work), c10::AliasAnalysisKind::CONSERVATIVE};
}

}  // namespace

void register_operators() {
  // What holds an operator there differs between releases.
  using Registered = decltype(torch::jit::OperatorGenerator(
      "", [](Stack&) {}, c10::AliasAnalysisKind::CONSERVATIVE));
  static const torch::jit::RegisterOperators registered(std::vector<Registered>{
      made_operator(std::string(kWrapNumber) + "(Scalar number) -> Tensor", wrap_number),
      made_operator(std::string(kAsScalar) + "(bool flag) -> Scalar", [](Stack&) {}),
      made_operator(std::string(kExpectTensor) +
                        "(Tensor input, str name, int dtype, int[] least, int[] most) -> ()",
                    expect_tensor),
      made_operator(std::string(kExpect) + "(bool holds, str otherwise) -> ()", expect)});
}

}  // namespace repro_check::exported
