// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/exported_module.h"

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/named_value.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/exported/exported_weights.h"
#include "dumpers/exported/graph_builder.h"
#include "dumpers/exported/guards.h"
#include "dumpers/exported/marks.h"
#include "dumpers/exported/structure.h"
#include "dumpers/model_file/exported_file.h"

namespace repro_check::exported {
namespace {

using Program = nlohmann::ordered_json;

/// `encoder.0.weight`: the module `encoder.0`, empty for the root, and its member.
struct MemberName {
  explicit MemberName(const std::string& name)
      : owner(name, 0, name.find('.') == std::string::npos ? 0 : name.rfind('.')),
        member(name.substr(name.rfind('.') + 1)) {}
  std::string owner;
  std::string member;
};

/// The modules of a program, made as their tensors come.
class ModuleTree {
 public:
  explicit ModuleTree(const std::string& type)
      : unit_(std::make_shared<torch::jit::CompilationUnit>()), root_(made(type)) {}

  void put(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    const MemberName split(name);
    at(split.owner).register_parameter(split.member, tensor, !is_parameter);
  }

  [[nodiscard]] const torch::jit::Module& root() const { return root_; }

 private:
  torch::jit::Module made(const std::string& type) {
    const std::string name = type.empty() ? "Module" : type;
    return {c10::QualifiedName("__torch__." + name), unit_, true};
  }

  torch::jit::Module at(const std::string& path) {
    if (path.empty()) return root_;
    if (const auto known = modules_.find(path); known != modules_.end()) return known->second;
    const MemberName split(path);
    const torch::jit::Module module = made({});
    at(split.owner).register_module(split.member, module);
    return modules_.emplace(path, module).first->second;
  }

  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module root_;
  std::map<std::string, torch::jit::Module> modules_;
};

/// The class of the model itself: the outermost of any node's modules.
std::string root_type(const Program& graph) {
  for (const Program& node : graph.at("nodes")) {
    const std::string stack = node.at("metadata").value("nn_module_stack", "");
    const ModuleMark outermost = parse_mark(stack.substr(0, stack.find(';')));
    if (!outermost.type.empty()) return outermost.type;
  }
  return {};
}

/// Bounds of a dimension of an input.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

Bounds bounds_of(const Program& size, const Program& ranges) {
  if (const auto fixed = size.find("as_int"); fixed != size.end()) return {*fixed, *fixed};
  constexpr std::string_view kSymbol = "Symbol('";
  const std::string text = size.at("as_expr").at("expr_str");
  Bounds bounds;
  if (!text.starts_with(kSymbol)) return bounds;
  const std::size_t end = text.find('\'', kSymbol.size());
  const auto range = ranges.find(text.substr(kSymbol.size(), end - kSymbol.size()));
  if (range == ranges.end()) return bounds;
  if (range->at("min_val").is_number()) bounds.least = range->at("min_val");
  if (range->at("max_val").is_number()) bounds.most = range->at("max_val");
  return bounds;
}

/// What the program is called with, in one flat list.
struct Leaf {
  const Program* spec = nullptr;  ///< an Argument, or a ConstantValue
  std::string name;               ///< in the graph
  bool is_constant = false;

  [[nodiscard]] const std::string& kind() const { return model_file::item_of(*spec).kind; }
};

c10::TypePtr type_of(const Leaf& leaf) {
  const std::string& kind = leaf.kind();
  if (kind == "as_tensor") return c10::TensorType::get();
  if (kind == "as_sym_int" || kind == "as_int") return c10::IntType::get();
  if (kind == "as_sym_float" || kind == "as_float") return c10::FloatType::get();
  if (kind == "as_sym_bool" || kind == "as_bool") return c10::BoolType::get();
  if (kind == "as_string") return c10::StringType::get();
  if (kind == "as_none") return c10::NoneType::get();
  throw untranslated("an input " + kind);
}

class Translation {
 public:
  Translation(const Program& program,
              std::map<std::string, at::Tensor> tensors,
              std::map<std::string, at::Tensor> constants,
              at::Device device)
      : program_(program),
        graph_module_(program.at("graph_module")),
        tensors_(std::move(tensors)),
        constants_(std::move(constants)),
        modules_(root_type(graph_module_.at("graph"))),
        graph_(std::make_shared<torch::jit::Graph>()),
        builder_(*graph_, device) {}

  ExportedModule run() {
    const Program& signature = graph_module_.at("signature");
    self_ = graph_->addInput("self");
    take_state(signature.at("input_specs"));
    self_->setType(modules_.root().type());
    take_inputs();
    for (const auto& [name, owned] : state_) names_[name] = attribute(owned);
    builder_.add_nodes(graph_module_.at("graph"), names_);
    finish(signature.at("output_specs"));
    add_method();
    return {modules_.root(), unchecked_};
  }

 private:
  void take_state(const Program& specs) {
    for (const Program& spec : specs) {
      const auto& [kind, value] = model_file::item_of(spec);
      if (kind == "parameter") {
        own(value, value.at("parameter_name"), true);
      } else if (kind == "buffer") {
        own(value, value.at("buffer_name"), false);
      } else if (kind == "tensor_constant") {
        own(value, value.at("tensor_constant_name"), false);
      } else if (kind == "user_input") {
        leaves_.push_back(
            {&value.at("arg"), name_in(model_file::item_of(value.at("arg")).value), false});
      } else if (kind == "constant_input") {
        leaves_.push_back({&value.at("value"), value.at("name"), true});
      } else {
        throw untranslated("an input that is a " + kind);
      }
    }
  }

  void own(const Program& spec, const std::string& name, bool is_parameter) {
    const auto saved = tensors_.find(name);
    const auto constant = constants_.find(name);
    if (saved == tensors_.end() && constant == constants_.end()) {
      throw core::usage_error(name + " has no values in the file", "export the model again");
    }
    modules_.put(name, saved != tensors_.end() ? saved->second : constant->second, is_parameter);
    state_.emplace_back(spec.at("arg").at("name").get<std::string>(), name);
  }

  torch::jit::Value* attribute(const std::string& name) {
    const MemberName split(name);
    if (split.owner.empty()) return graph_->insertGetAttr(self_, split.member);
    torch::jit::Value*& owner = modules_of_graph_[split.owner];
    if (owner == nullptr) owner = attribute(split.owner);
    return graph_->insertGetAttr(owner, split.member);
  }

  void take_inputs() {
    const Program& call = graph_module_.at("module_call_graph").at(0).at("signature");
    const Structure inputs = parse_structure(call.at("in_spec"));
    if (inputs.parts.size() != 2 || inputs.leaves() != leaves_.size()) {
      throw untranslated("a program with other inputs than its signature has");
    }
    const auto listed = call.find("forward_arg_names");
    std::size_t number = 0;
    const auto name_of_next = [&](const std::string& own) {
      const bool is_listed = listed != call.end() && listed->is_array() && number < listed->size();
      ++number;
      return is_listed     ? (*listed)[number - 1].get<std::string>()
             : own.empty() ? "argument_" + std::to_string(number - 1)
                           : own;
    };
    std::size_t first = 0;
    for (const Structure& group : inputs.parts) {
      for (std::size_t i = 0; i < group.parts.size(); ++i) {
        const std::string own = i < group.names.size() ? group.names[i] : std::string();
        take_input(group.parts[i], name_of_next(own), first);
        first += group.parts[i].leaves();
      }
    }
    check_inputs();
    check_guards();
  }

  /// @param first  its first leaf
  void take_input(const Structure& structure, const std::string& name, std::size_t first) {
    std::vector<c10::TypePtr> types;
    for (std::size_t i = 0; i < structure.leaves(); ++i)
      types.push_back(type_of(leaves_[first + i]));
    const c10::TypePtr type = input_type(structure, types);
    torch::jit::Value* input = graph_->addInput(name)->setType(type);
    if (structure.kind == Structure::Kind::kLeaf && leaves_[first].is_constant) {
      const auto preset = torch::jit::toIValue(builder_.value_of(*leaves_[first].spec, names_));
      arguments_.emplace_back(name, type, c10::Argument("").N(), preset);
    } else {
      arguments_.emplace_back(name, type);
    }
    inputs_.push_back({structure, input, first});
  }

  /// Only when every input of the graph is there: nodes come behind them.
  void check_inputs() {
    for (const auto& [structure, input, first] : inputs_) {
      const std::vector<torch::jit::Value*> parts = unpack(*graph_, structure, input);
      const std::vector<std::string> sources =
          sources_of(structure, "L['" + input->debugName() + "']");
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Leaf& leaf = leaves_[first + i];
        sources_[sources[i]] = parts[i];
        if (leaf.is_constant) {
          check_constant(leaf, parts[i]);
        } else {
          names_[leaf.name] = parts[i];
          if (leaf.kind() == "as_tensor") check_tensor(leaf, parts[i]);
        }
      }
    }
  }

  /// Conditions on sizes that Python checks before it runs a program.
  void check_guards() {
    const auto guards = program_.find("guards_code");
    if (guards == program_.end()) return;
    for (const Program& guard : *guards) {
      const std::string text = guard;
      if (torch::jit::Value* holds = guard_value(builder_, text, sources_)) {
        builder_.call(
            kExpect,
            {holds,
             builder_.constant("the sizes of the inputs do not fit: the model was exported for " +
                               text)});
      } else {
        unchecked_.push_back("Python would check before the run, and this did not: " + text);
      }
    }
  }

  void check_constant(const Leaf& leaf, torch::jit::Value* value) {
    if (leaf.kind() == "as_none") return;
    torch::jit::Value* holds =
        builder_.call("aten::eq", {value, builder_.value_of(*leaf.spec, names_)});
    builder_.call(
        kExpect,
        {holds,
         builder_.constant("input \"" + leaf.name +
                           "\" has another value than the one that the model was exported with")});
  }

  void check_tensor(const Leaf& leaf, torch::jit::Value* value) {
    const Program& meta = graph_module_.at("graph").at("tensor_values").at(leaf.name);
    const Program& ranges = program_.at("range_constraints");
    torch::jit::Value* name = builder_.constant(leaf.name);
    std::vector<std::int64_t> least;
    std::vector<std::int64_t> most;
    for (const Program& size : meta.at("sizes")) {
      const Bounds bounds = bounds_of(size, ranges);
      least.push_back(bounds.least);
      most.push_back(bounds.most);
    }
    const auto type = capture::scalar_type_of(model_file::exported_dtype(meta.at("dtype")));
    const auto dtype = static_cast<std::int64_t>(type.value_or(at::ScalarType::Undefined));
    builder_.call(
        kExpectTensor,
        {value, name, builder_.constant(dtype), builder_.constant(least), builder_.constant(most)});
  }

  void finish(const Program& specs) {
    std::vector<torch::jit::Value*> returned;
    std::vector<std::pair<torch::jit::Value*, torch::jit::Value*>> changed;
    const auto value_named = [&](const Program& spec) {
      return names_.at(spec.at("arg").at("name"));
    };
    for (const Program& spec : specs) {
      const auto& [kind, value] = model_file::item_of(spec);
      if (kind == "user_output") {
        returned.push_back(builder_.value_of(value.at("arg"), names_));
      } else if (kind == "loss_output") {
        returned.push_back(value_named(value));
      } else if (kind == "buffer_mutation") {
        changed.emplace_back(attribute(value.at("buffer_name")), value_named(value));
      } else if (kind == "parameter_mutation") {
        changed.emplace_back(attribute(value.at("parameter_name")), value_named(value));
      } else if (kind == "user_input_mutation") {
        changed.emplace_back(names_.at(value.at("user_input_name")), value_named(value));
      } else if (kind != "token") {
        throw untranslated("a result that is a " + kind);
      }
    }
    // After all operators, as ExportedProgram.module() does it.
    for (const auto& [into, from] : changed) {
      builder_.call("aten::copy_", {into, from, builder_.constant(false)});
    }
    const Structure outputs =
        parse_structure(graph_module_.at("module_call_graph").at(0).at("signature").at("out_spec"));
    if (outputs.leaves() != returned.size()) {
      throw untranslated("a program with other results than its signature has");
    }
    graph_->registerOutput(pack(*graph_, outputs, returned));
  }

  void add_method() {
    const torch::jit::Module& root = modules_.root();
    const c10::QualifiedName name(*root.type()->name(), "forward");
    torch::jit::Function* method = root.type()->compilation_unit()->create_function(name, graph_);
    root.type()->addMethod(method);
    std::vector<c10::Argument> arguments{c10::Argument("self", root.type())};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    method->setSchema(c10::FunctionSchema(
        "forward", "", arguments, {c10::Argument("", graph_->outputs().at(0)->type())}));
  }

  struct Input {
    Structure structure;
    torch::jit::Value* value = nullptr;
    std::size_t first = 0;  ///< its first leaf
  };

  const Program& program_;
  const Program& graph_module_;
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, at::Tensor> constants_;
  ModuleTree modules_;
  std::shared_ptr<torch::jit::Graph> graph_;
  GraphBuilder builder_;
  torch::jit::Value* self_ = nullptr;
  std::vector<std::pair<std::string, std::string>>
      state_;  ///< name in the graph, name in the model
  std::map<std::string, torch::jit::Value*> modules_of_graph_;
  std::vector<Leaf> leaves_;
  std::vector<Input> inputs_;
  std::vector<c10::Argument> arguments_;
  Names names_;
  Sources sources_;
  std::vector<std::string> unchecked_;
};

}  // namespace

ExportedModule load_exported(const std::filesystem::path& file, at::Device device) {
  register_operators();
  const model_file::ExportedFile exported = model_file::read_exported_file(file);
  try {
    ExportedModule made = Translation(*exported.model,
                                      read_tensors(file, *exported.weights, "weights"),
                                      read_tensors(file, *exported.constants, "constants"),
                                      device)
                              .run();
    if (device.type() != at::kCPU) made.module.to(device);
    return made;
  } catch (const core::Error& error) {
    const std::string what = error.what();
    if (what.starts_with(file.string())) throw;
    throw core::Error(error.kind(), file.string() + ": " + what, error.hint());
  } catch (const nlohmann::ordered_json::exception& error) {
    throw model_file::not_as_exported(file, error);
  } catch (const std::out_of_range& error) {
    throw model_file::not_as_exported(file, error);
  }
}

}  // namespace repro_check::exported
