// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/graph_builder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/named_value.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/exported/marks.h"
#include "dumpers/model_file/exported_file.h"

namespace repro_check::exported {
namespace {

using Json = nlohmann::ordered_json;
using torch::jit::Node;
using torch::jit::Value;

std::string text_of(const Json& value) { return value.get<std::string>(); }

/// `torch.ops.higher_order.cond` -> `cond`.
std::string last_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// As TorchScript's tracer writes a stack, which is how places are read.
std::string trace_text(const std::string& stack) {
  std::string text;
  for (const core::SourceFrame& frame : model_file::frames_of_stack(stack)) {
    text += frame.file + '(' + std::to_string(frame.line) + "): " + frame.function + '\n';
  }
  return text;
}

/// In the schema a memory format and a layout have numbers of their own.
std::int64_t memory_format_of(std::int64_t number) {
  constexpr std::array kFormats{at::MemoryFormat::Contiguous,
                                at::MemoryFormat::ChannelsLast,
                                at::MemoryFormat::ChannelsLast3d,
                                at::MemoryFormat::Preserve};
  if (number < 1 || std::cmp_greater(number, kFormats.size())) {
    throw untranslated("memory format " + std::to_string(number));
  }
  return static_cast<std::int64_t>(kFormats[static_cast<std::size_t>(number - 1)]);
}

std::int64_t layout_of(std::int64_t number) {
  constexpr std::int64_t kSparse = 1;
  constexpr std::int64_t kStrided = 7;
  if (number == kSparse) return static_cast<std::int64_t>(at::kSparse);
  if (number == kStrided) return static_cast<std::int64_t>(at::kStrided);
  throw untranslated("layout " + std::to_string(number));
}

/// Floats that JSON has no number for are texts.
double float_of(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string text = value;
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw untranslated("the number " + text);
}

/// What Python computes numbers with, and the operator of TorchScript that does the same.
struct Arithmetic {
  std::string_view target;
  const char* name;
};
constexpr std::array kArithmetic{
    Arithmetic{"_operator.add", "aten::add"},
    Arithmetic{"_operator.sub", "aten::sub"},
    Arithmetic{"_operator.mul", "aten::mul"},
    Arithmetic{"_operator.neg", "aten::neg"},
    Arithmetic{"_operator.floordiv", "aten::floordiv"},
    Arithmetic{"_operator.truediv", "aten::div"},
    Arithmetic{"_operator.mod", "aten::remainder"},
    Arithmetic{"_operator.lshift", "aten::__lshift__"},
    Arithmetic{"_operator.rshift", "aten::__rshift__"},
    Arithmetic{"_operator.eq", "aten::eq"},
    Arithmetic{"_operator.ne", "aten::ne"},
    Arithmetic{"_operator.lt", "aten::lt"},
    Arithmetic{"_operator.le", "aten::le"},
    Arithmetic{"_operator.gt", "aten::gt"},
    Arithmetic{"_operator.ge", "aten::ge"},
    Arithmetic{"_operator.and_", "aten::__and__"},
    Arithmetic{"_operator.or_", "aten::__or__"},
    Arithmetic{"torch.sym_not", "aten::__not__"},
    Arithmetic{"torch.sym_max", "prim::max"},
    Arithmetic{"torch.sym_min", "prim::min"},
    Arithmetic{"torch.sym_float", "aten::Float"},
    Arithmetic{"torch.sym_int", "aten::Int"},
    Arithmetic{"torch._sym_sqrt", "aten::sqrt"},
    Arithmetic{"math.trunc", "aten::Int"},
    // The same as these where TorchScript has them for numbers, without
    // a way through the dispatcher.
    Arithmetic{"torch.ops.aten.sym_size.int", "aten::size"},
    Arithmetic{"torch.ops.aten.sym_stride.int", "aten::stride"},
    Arithmetic{"torch.ops.aten.sym_numel.default", "aten::numel"},
    Arithmetic{"torch.ops.aten.sym_storage_offset.default", "aten::storage_offset"}};

const char* arithmetic_of(std::string_view target) {
  const auto* found = std::ranges::find(kArithmetic, target, &Arithmetic::target);
  return found == kArithmetic.end() ? nullptr : found->name;
}

/// `torch.ops.aten.conv2d.default`: the operator `aten::conv2d`, of the overload without a name.
struct OperatorName {
  std::string name;
  std::string overload;
};

OperatorName operator_name(const std::string& target) {
  constexpr std::string_view kOps = "torch.ops.";
  const std::size_t space = target.find('.', kOps.size());
  const std::size_t overload = target.rfind('.');
  if (!target.starts_with(kOps) || space == std::string::npos || overload <= space) {
    throw untranslated("the call of " + target);
  }
  const std::string tag = target.substr(overload + 1);
  return {target.substr(kOps.size(), space - kOps.size()) +
              "::" + target.substr(space + 1, overload - space - 1),
          tag == "default" ? std::string() : tag};
}

const c10::FunctionSchema& schema_of(const OperatorName& wanted, const std::string& target) {
  const auto symbol = c10::Symbol::fromQualString(wanted.name);
  for (const auto& each : torch::jit::getAllOperatorsFor(symbol)) {
    if (each->schema().overload_name() == wanted.overload) return each->schema();
  }
  throw core::usage_error(
      "the operator " + target + " is not one of LibTorch",
      "name the library that registers it, \"extensions\": [\"libmy.so\"]; one that Python "
      "registers is there in Python alone: repro-check run -- python FILE.py; one of a newer "
      "PyTorch "
      "needs a recorder of that");
}

/// TorchScript finds an operator by its name and the types of its arguments, which fit several
/// overloads of some: an operator of our own that calls this one alone.
c10::Symbol exact_operator(const OperatorName& wanted, const c10::FunctionSchema& schema) {
  static std::mutex mutex;
  static std::set<std::string> known;
  std::string name = "repro_check_exact::" + wanted.name + '_' + wanted.overload;
  std::ranges::replace(
      name.begin() + static_cast<std::ptrdiff_t>(name.find("::") + 2), name.end(), ':', '_');
  const auto symbol = c10::Symbol::fromQualString(name);
  const std::lock_guard lock(mutex);
  if (known.contains(name)) return symbol;
  const auto handle = c10::Dispatcher::singleton().findSchema({wanted.name, wanted.overload});
  if (!handle) throw untranslated("the call of " + wanted.name + " with arguments of these types");
  torch::jit::registerOperator(torch::jit::Operator(
      name,
      "",
      schema.arguments(),
      schema.returns(),
      torch::jit::Operation([call = *handle](torch::jit::Stack& stack) { call.callBoxed(&stack); }),
      c10::AliasAnalysisKind::FROM_SCHEMA));
  known.insert(std::move(name));
  return symbol;
}

c10::TypePtr without_optional(c10::TypePtr type) {
  while (const auto* optional = type->castRaw<c10::OptionalType>())
    type = optional->getElementType();
  return type;
}

/// What leaves a block takes the place of one value each.
void require_same_types(const std::vector<Value*>& left, const std::vector<Value*>& right) {
  const bool are_same = std::ranges::equal(
      left, right, [](const Value* a, const Value* b) { return *a->type() == *b->type(); });
  if (!are_same) throw untranslated("a branch or loop whose results have several types");
}

bool is_number(const c10::TypePtr& type) {
  return type->isSubtypeOf(*c10::NumberType::get()) || type->kind() == c10::TypeKind::BoolType;
}

/// @param given  what an Argument of the schema holds; a constant has no name
std::string bound_name(const Json& given) {
  std::string name = name_in(given);
  if (name.empty()) throw untranslated("a value without a name");
  return name;
}

/// Names the line of the program that a node is of.
core::Error with_line(const core::Error& error, const Json& node) {
  const auto frames = model_file::frames_of_stack(node.at("metadata").value("stack_trace", ""));
  const std::string what = error.what();
  if (frames.empty() || what.starts_with(frames.front().file)) return error;
  const std::string line = frames.front().file + ":" + std::to_string(frames.front().line);
  return {error.kind(), line + ": " + what, error.hint()};
}

}  // namespace

std::string name_in(const Json& value) {
  if (!value.is_object()) return {};
  const auto name = value.find(value.contains("name") ? "name" : "as_name");
  return name == value.end() ? std::string() : name->get<std::string>();
}

core::Error untranslated(const std::string& what) {
  return core::usage_error(
      what + " is not known of exported programs",
      "record the program that holds the model instead: repro-check run -- python FILE.py");
}

void GraphBuilder::stand_at(const Json& metadata) {
  const std::string trace = trace_text(metadata.value("stack_trace", ""));
  range_ = {};
  if (!trace.empty()) {
    const auto source = std::make_shared<torch::jit::Source>(trace);
    range_ = torch::jit::SourceRange(source, 0, trace.size());
  }
  const std::string stack = metadata.value("nn_module_stack", "");
  torch::jit::ScopePtr& scope = scopes_[stack];
  if (!scope) {
    const ModuleMark mark = parse_mark(stack.substr(stack.rfind(';') + 1));  // the innermost
    scope = mark.type.empty() ? c10::make_intrusive<torch::jit::Scope>() : scope_of(mark);
  }
  graph_.set_current_scope(scope);
}

Node* GraphBuilder::put(Node* node) {
  node->setSourceRange(range_);
  return graph_.insertNode(node);
}

Value* GraphBuilder::call(const char* name, at::ArrayRef<torch::jit::NamedValue> arguments) {
  return graph_.insert(c10::Symbol::fromQualString(name), arguments, {}, range_);
}

void GraphBuilder::add_nodes(const Json& graph, Names& names) {
  const torch::jit::ScopePtr around = graph_.current_scope();
  const torch::jit::SourceRange range = range_;
  for (const Json& node : graph.at("nodes")) {
    // A graph inside another names no module: it is the code of the one around it.
    const Json& metadata = node.at("metadata");
    const bool is_inside = !metadata.contains("nn_module_stack");
    stand_at(metadata);
    if (is_inside) graph_.set_current_scope(around);
    add_node(node, names);
  }
  graph_.set_current_scope(around);
  range_ = range;
}

void GraphBuilder::add_node(const Json& node, Names& names) {
  const std::string target = node.at("target");
  try {
    add_by_kind(target, node, names);
  } catch (const core::Error& error) {
    throw with_line(error, node);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw with_line(
        untranslated("the call of " + target + " (" + what.substr(0, what.find('\n')) + ")"), node);
  }
}

void GraphBuilder::add_by_kind(const std::string& target, const Json& node, Names& names) {
  if (arithmetic_of(target) != nullptr || target == "_operator.pow" || target == "_operator.pos" ||
      target == "torch.sym_ite") {
    add_arithmetic(target, node, names);
  } else if (target.starts_with("torch.ops.higher_order.")) {
    add_higher_order(target, node, names);
  } else {
    add_operator(target, node, names);
  }
}

void GraphBuilder::add_operator(const std::string& target, const Json& node, Names& names) {
  const OperatorName wanted = operator_name(target);
  const c10::FunctionSchema& schema = schema_of(wanted, target);
  Values operands;
  for (const c10::Argument& argument : schema.arguments()) {
    operands.push_back(operand_of(argument, node, names));
  }
  const auto made_of = [&](c10::Symbol symbol) {
    Node* made = graph_.create(symbol, operands, schema.returns().size());
    for (std::size_t i = 0; i < schema.returns().size(); ++i) {
      made->outputs()[i]->setType(schema.returns()[i].type());
    }
    return made;
  };
  Node* made = made_of(c10::Symbol::fromQualString(wanted.name));
  const torch::jit::Operator* found = made->maybeOperator();
  if (found == nullptr || found->schema().overload_name() != wanted.overload) {
    made->destroy();
    made = made_of(exact_operator(wanted, schema));
    if (made->maybeOperator() == nullptr) {
      throw untranslated("the call of " + target + " with arguments of these types");
    }
  }
  put(made);
  bind(node.at("outputs"), made->outputs(), names);
}

Value* GraphBuilder::operand_of(const c10::Argument& argument,
                                const Json& node,
                                const Names& names) {
  for (const Json& input : node.at("inputs")) {
    if (input.at("name") == argument.name()) return value_of(input.at("arg"), names, &argument);
  }
  if (argument.default_value()) return constant(*argument.default_value());
  if (argument.type()->kind() == c10::TypeKind::OptionalType) return constant({});
  throw untranslated("a call without its argument " + argument.name());
}

void GraphBuilder::add_arithmetic(const std::string& target, const Json& node, Names& names) {
  std::vector<torch::jit::NamedValue> operands;
  Values values;
  for (const Json& input : node.at("inputs")) {
    values.push_back(value_of(input.at("arg"), names));
    operands.emplace_back(values.back());
  }
  Value* made = nullptr;
  if (target == "_operator.pos") {
    made = values.at(0);
  } else if (target == "torch.sym_ite") {
    Node* choice = put(graph_.create(c10::prim::If, {values.at(0)}, 0));
    for (Value* branch : {values.at(1), values.at(2)}) choice->addBlock()->registerOutput(branch);
    made = choice->addOutput()->setType(values.at(1)->type());
  } else if (target == "_operator.pow") {
    made = power(values.at(0), node.at("inputs").at(1).at("arg"));
  } else {
    made = call(arithmetic_of(target), operands);
  }
  bind(node.at("outputs"), {made}, names);
}

/// TorchScript's own `**` makes a float of two whole numbers.
Value* GraphBuilder::power(Value* base, const Json& exponent) {
  constexpr std::int64_t kMost = 16;
  const auto times = exponent.find("as_int");
  if (times == exponent.end() || *times < 1 || *times > kMost)
    throw untranslated("a power of a size");
  Value* made = base;
  for (std::int64_t i = 1; i < times->get<std::int64_t>(); ++i)
    made = call("aten::mul", {made, base});
  return made;
}

Value* GraphBuilder::as_bool(Value* value) {
  return value->type()->kind() == c10::TypeKind::BoolType ? value : call("aten::Bool", {value});
}

void GraphBuilder::flatten(const Json& argument, const Names& names, Values& into) {
  const auto& [kind, items] = model_file::item_of(argument);
  if (!items.is_array()) {
    into.push_back(value_of(argument, names));
    return;
  }
  const std::string one = kind.substr(0, kind.size() - 1);
  for (const Json& item : items) into.push_back(scalar_of(one, item, names));
}

void GraphBuilder::add_higher_order(const std::string& target, const Json& node, Names& names) {
  const Json& inputs = node.at("inputs");
  const auto argument = [&](std::size_t index) -> const Json& {
    return inputs.at(index).at("arg");
  };
  const auto graph = [&](std::size_t index) -> const Json& {
    return argument(index).at("as_graph").at("graph");
  };
  const auto from = [&](std::size_t first, std::size_t end) {
    Values values;
    for (std::size_t i = first; i < std::min(end, inputs.size()); ++i) {
      flatten(argument(i), names, values);
    }
    return values;
  };
  const std::string kind = last_name(target);
  Values made;
  if (kind == "cond") {
    made = cond(as_bool(value_of(argument(0), names)), graph(1), graph(2), from(3, inputs.size()));
  } else if (kind == "while_loop") {
    made = while_loop(graph(0), graph(1), from(2, 3), from(3, inputs.size()));
  } else if (kind == "wrap_with_set_grad_enabled") {
    made = without_grad_mode(argument(0).at("as_bool"), graph(1), from(2, inputs.size()));
  } else if (kind == "wrap_with_autocast" && !argument(2).at("as_bool").get<bool>()) {
    constexpr std::size_t kBody = 4;
    made = inline_graph(graph(kBody), from(kBody + 1, inputs.size()));
  } else {
    throw untranslated(target);
  }
  std::size_t next = 0;
  for (const Json& output : node.at("outputs")) {
    const Json& value = model_file::item_of(output).value;
    const bool is_list = value.is_array();
    for (std::size_t i = 0; i < (is_list ? value.size() : 1); ++i, ++next) {
      const Json& item = is_list ? value[i] : value;
      if (item.is_object()) names[bound_name(item)] = made.at(next);
    }
  }
}

GraphBuilder::Values GraphBuilder::inline_graph(const Json& graph, const Values& operands) {
  Names names;
  std::size_t next = 0;
  for (const Json& input : graph.at("inputs")) {
    const Json& value = model_file::item_of(input).value;
    if (value.is_object()) names[bound_name(value)] = operands.at(next);
    ++next;
  }
  add_nodes(graph, names);
  Values made;
  for (const Json& output : graph.at("outputs")) flatten(output, names, made);
  return made;
}

GraphBuilder::Values GraphBuilder::cond(Value* holds,
                                        const Json& then,
                                        const Json& otherwise,
                                        const Values& operands) {
  Node* choice = put(graph_.create(c10::prim::If, {holds}, 0));
  std::vector<Values> results;
  for (const Json* branch : {&then, &otherwise}) {
    torch::jit::Block* block = choice->addBlock();
    const torch::jit::WithInsertPoint guard(block);
    results.push_back(inline_graph(*branch, operands));
    for (Value* made : results.back()) block->registerOutput(made);
  }
  require_same_types(results[0], results[1]);
  for (const Value* made : results[0]) choice->addOutput()->setType(made->type());
  return choice->outputs().vec();
}

GraphBuilder::Values GraphBuilder::while_loop(const Json& holds,
                                              const Json& body,
                                              const Values& carried,
                                              const Values& rest) {
  const auto with_rest = [&](Values values) {
    values.insert(values.end(), rest.begin(), rest.end());
    return values;
  };
  const auto goes_on = [&](const Values& values) {
    return as_bool(inline_graph(holds, with_rest(values)).at(0));
  };
  Values inputs{constant(std::numeric_limits<std::int64_t>::max()), goes_on(carried)};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  Node* loop = put(graph_.create(c10::prim::Loop, inputs, 0));
  torch::jit::Block* block = loop->addBlock();
  block->addInput()->setType(c10::IntType::get());
  Values inside;
  for (const Value* value : carried) inside.push_back(block->addInput()->setType(value->type()));
  {
    const torch::jit::WithInsertPoint guard(block);
    const Values next = inline_graph(body, with_rest(inside));
    require_same_types(next, inside);
    block->registerOutput(goes_on(next));
    for (Value* value : next) block->registerOutput(value);
  }
  for (const Value* value : carried) loop->addOutput()->setType(value->type());
  return loop->outputs().vec();
}

GraphBuilder::Values GraphBuilder::without_grad_mode(bool enabled,
                                                     const Json& body,
                                                     const Values& operands) {
  Value* before = call("aten::is_grad_enabled", {});
  call("aten::set_grad_enabled", {constant(enabled)});
  Values made = inline_graph(body, operands);
  call("aten::set_grad_enabled", {before});
  return made;
}

Value* GraphBuilder::named(const std::string& name, const Names& names) const {
  const auto found = names.find(name);
  if (found == names.end()) throw untranslated("the value " + name + ", which nothing makes,");
  return found->second;
}

Value* GraphBuilder::scalar_of(const std::string& kind, const Json& value, const Names& names) {
  if (kind == "as_none") return constant({});
  if (kind == "as_int") return constant(value.get<std::int64_t>());
  if (kind == "as_float") return constant(float_of(value));
  if (kind == "as_bool") return constant(value.get<bool>());
  if (kind == "as_string") return constant(value.get<std::string>());
  if (kind == "as_device") return constant(device_);
  if (kind == "as_memory_format") return constant(memory_format_of(value));
  if (kind == "as_layout") return constant(layout_of(value));
  if (kind == "as_tensor") return named(text_of(value.at("name")), names);
  if (kind == "as_complex") {
    return constant(c10::complex<double>(float_of(value.at("real")), float_of(value.at("imag"))));
  }
  if (kind == "as_scalar_type") {
    const auto type = capture::scalar_type_of(model_file::exported_dtype(value));
    if (!type) throw untranslated("dtype " + value.dump());
    return constant(static_cast<std::int64_t>(*type));
  }
  // One of several, by its own key.
  constexpr std::array<std::string_view, 4> kEither{
      "as_sym_int", "as_sym_float", "as_sym_bool", "as_optional_tensor"};
  if (std::ranges::find(kEither, kind) == kEither.end()) throw untranslated("an argument " + kind);
  const auto& [which, one] = model_file::item_of(value);
  if (which == "as_name") return named(text_of(one), names);
  return scalar_of(which, one, names);
}

Value* GraphBuilder::list_of(const std::string& kind,
                             const Json& items,
                             const Names& names,
                             const c10::TypePtr& wanted) {
  const std::string one = kind.substr(0, kind.size() - 1);
  Values values;
  for (const Json& item : items) values.push_back(scalar_of(one, item, names));
  c10::TypePtr element = c10::TensorType::get();
  if (const auto* list = wanted ? wanted->castRaw<c10::ListType>() : nullptr) {
    element = list->getElementType();
    for (Value*& value : values) {
      if (value->type()->kind() != c10::TypeKind::NoneType) value = fitted(value, element, 0);
    }
  } else if (!values.empty()) {
    element = values.front()->type();
  }
  return put(graph_.createList(element, values))->output();
}

Value* GraphBuilder::value_of(const Json& argument,
                              const Names& names,
                              const c10::Argument* wanted) {
  const auto& [kind, given] = model_file::item_of(argument);
  const c10::TypePtr type = wanted == nullptr ? nullptr : without_optional(wanted->type());
  if (given.is_array()) return list_of(kind, given, names, type);
  Value* value = scalar_of(kind, given, names);
  return wanted == nullptr ? value : fitted(value, type, wanted->N().value_or(0));
}

Value* GraphBuilder::fitted(Value* value, const c10::TypePtr& wanted, std::int32_t length) {
  using c10::TypeKind;
  const TypeKind has = value->type()->kind();
  const TypeKind takes = wanted->kind();
  if (has == TypeKind::NoneType || has == takes) return value;
  if (takes == TypeKind::TensorType && is_number(value->type())) {
    Value* number = has == TypeKind::BoolType ? call(kAsScalar, {value}) : value;
    return call(kWrapNumber, {number});
  }
  if (takes == TypeKind::FloatType && has == TypeKind::IntType) return call("aten::Float", {value});
  if (takes == TypeKind::NumberType && has == TypeKind::BoolType) return call(kAsScalar, {value});
  if (takes == TypeKind::ListType && has != TypeKind::ListType && length > 0) {
    const c10::TypePtr element = wanted->castRaw<c10::ListType>()->getElementType();
    const Values same(static_cast<std::size_t>(length), fitted(value, element, 0));
    return put(graph_.createList(element, same))->output();
  }
  return value;
}

/// What `item` gives is a number of any type, and the export knows which.
Value* GraphBuilder::as_number_of(const std::string& kind, Value* value) {
  if (value->type()->kind() != c10::TypeKind::NumberType) return value;
  const c10::TypePtr type = kind == "as_sym_int"     ? c10::TypePtr(c10::IntType::get())
                            : kind == "as_sym_float" ? c10::TypePtr(c10::FloatType::get())
                                                     : c10::TypePtr(c10::BoolType::get());
  return graph_.insertUncheckedCast(value, type);
}

void GraphBuilder::bind(const Json& outputs, at::ArrayRef<Value*> values, Names& names) {
  std::size_t next = 0;
  for (const Json& output : outputs) {
    const auto& [kind, given] = model_file::item_of(output);
    if (next >= values.size()) throw untranslated("a call with more results than it has");
    Value* value = values[next++];
    if (kind == "as_none") continue;
    if (kind == "as_tensor") {
      names[text_of(given.at("name"))] = value;
    } else if (kind == "as_tensors" && value->type()->kind() == c10::TypeKind::ListType) {
      Node* parts = put(graph_.createListUnpack(value, given.size()));
      for (std::size_t i = 0; i < given.size(); ++i)
        names[text_of(given[i].at("name"))] = parts->output(i);
    } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      value = as_number_of(kind, value);
      if (given.contains("as_name")) names[text_of(given.at("as_name"))] = value;
    } else {
      throw untranslated("a result " + kind);
    }
  }
}

}  // namespace repro_check::exported
