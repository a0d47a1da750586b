// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <c10/core/Device.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace repro_check::exported {

/// Values of a graph by the names that torch.export gave them.
using Names = std::unordered_map<std::string, torch::jit::Value*>;

/// The name of a value of a graph in what an Argument of the schema holds; empty for a constant.
std::string name_in(const nlohmann::ordered_json& value);

/// What this tool does not translate.
core::Error untranslated(const std::string& what);

/// Makes the nodes of a graph of torch.export TorchScript: the same operators of the dispatcher,
/// with the same arguments, in the same order. Numbers that dynamic shapes are made of are computed
/// by TorchScript's own operators, `cond` and `while_loop` become its blocks. What it does not know
/// is refused, never left out.
class GraphBuilder {
 public:
  /// @param device  takes the place of every device that the graph names, as
  ///                `torch.export.passes.move_to_device_pass` does it
  GraphBuilder(torch::jit::Graph& graph, at::Device device) : graph_(graph), device_(device) {}

  /// @param graph  a Graph of the schema
  /// @param names  holds its inputs; gets what its nodes make
  /// @throws core::Error{kUsage}; what nlohmann::json throws of another form
  void add_nodes(const nlohmann::ordered_json& graph, Names& names);

  /// An Argument of the schema.
  /// @param wanted  the type that an operator takes it as; null = as it is
  torch::jit::Value* value_of(const nlohmann::ordered_json& argument,
                              const Names& names,
                              const c10::Argument* wanted = nullptr);

  torch::jit::Value* constant(const c10::IValue& value) { return graph_.insertConstant(value); }
  /// What an operator gives that TorchScript finds by its name and the types of its arguments.
  torch::jit::Value* call(const char* name, at::ArrayRef<torch::jit::NamedValue> arguments);

 private:
  using Json = nlohmann::ordered_json;
  using Value = torch::jit::Value;
  using Values = std::vector<Value*>;

  void add_node(const Json& node, Names& names);
  void add_by_kind(const std::string& target, const Json& node, Names& names);
  void add_operator(const std::string& target, const Json& node, Names& names);
  void add_arithmetic(const std::string& target, const Json& node, Names& names);
  void add_higher_order(const std::string& target, const Json& node, Names& names);
  Values cond(Value* holds, const Json& then, const Json& otherwise, const Values& operands);
  Values while_loop(const Json& holds, const Json& body, const Values& carried, const Values& rest);
  Values without_grad_mode(bool enabled, const Json& body, const Values& operands);
  Values inline_graph(const Json& graph, const Values& operands);

  Value* operand_of(const c10::Argument& argument, const Json& node, const Names& names);
  Value* scalar_of(const std::string& kind, const Json& value, const Names& names);
  Value* list_of(const std::string& kind,
                 const Json& items,
                 const Names& names,
                 const c10::TypePtr& wanted);
  /// @param length  of a list that one value stands for; 0 = none
  Value* fitted(Value* value, const c10::TypePtr& wanted, std::int32_t length);
  [[nodiscard]] Value* named(const std::string& name, const Names& names) const;
  Value* as_bool(Value* value);
  Value* power(Value* base, const Json& exponent);
  void flatten(const Json& argument, const Names& names, Values& into);
  Value* as_number_of(const std::string& kind, Value* value);
  void bind(const Json& outputs, at::ArrayRef<Value*> values, Names& names);
  torch::jit::Node* put(torch::jit::Node* node);
  void stand_at(const Json& metadata);

  torch::jit::Graph& graph_;
  at::Device device_;
  torch::jit::SourceRange range_;  ///< of the node that is translated
  std::map<std::string, torch::jit::ScopePtr> scopes_;
};

}  // namespace repro_check::exported
