// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor/dtype.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/model.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::torchscript {
namespace {

using torch::jit::Node;
using torch::jit::Value;

constexpr std::int64_t kAnySize = -1;

/// What these give has shape and dtype of what they take, as a rule.
constexpr std::array<std::string_view, 6> kPassed{
    "aten::clone", "aten::contiguous", "aten::detach", "aten::dropout", "aten::relu", "aten::to"};

struct Weight {
  std::string name;  ///< `encoder.layers.0.weight`
  at::Tensor tensor;
};

class FirstLayers {
 public:
  FirstLayers(const torch::jit::Module& module, const Value* self) : module_(module), self_(self) {}

  /// Fills in what the first layer that takes `value` wants, if one is known.
  /// @return whether one is
  bool describe(const Value* value, MethodArgument& argument) {
    // A loop may lead back.
    if (!seen_.insert(value).second) return false;
    for (const torch::jit::Use& use : value->uses()) {
      const Node* node = use.user;
      const std::string_view kind = node->kind().toQualString();
      if (take(kind, *node, use.offset, argument)) return true;
      const bool passes = use.offset == 0 && node->outputs().size() == 1 &&
                          std::ranges::find(kPassed, kind) != kPassed.end();
      if (passes && describe(node->output(), argument)) return true;
    }
    return false;
  }

 private:
  bool take(std::string_view kind, const Node& node, std::size_t place, MethodArgument& argument) {
    const bool is_convolution = kind == "aten::_convolution" || kind == "aten::convolution" ||
                                kind == "aten::conv1d" || kind == "aten::conv2d" ||
                                kind == "aten::conv3d";
    if (kind == "aten::embedding" && place == 1) {
      const auto weight = weight_of(node.input(0), 2);
      if (!weight) return false;
      note(*weight, {kAnySize, kAnySize}, argument);
      argument.dtype = "int64";
      argument.rows = weight->tensor.size(0);
    } else if (kind == "aten::linear" && place == 0) {
      const auto weight = weight_of(node.input(1), 2);
      if (!weight) return false;
      note(*weight, {1, weight->tensor.size(1)}, argument);
    } else if (is_convolution && place == 0) {
      const auto weight = weight_of(node.input(1), 3);
      const auto groups = torch::jit::toIValue(node.namedInput("groups"));
      if (!weight || !groups || !groups->isInt()) return false;
      bool is_transposed = false;
      if (kind == "aten::_convolution" || kind == "aten::convolution") {
        const auto flag = torch::jit::toIValue(node.namedInput("transposed"));
        if (!flag || !flag->isBool()) return false;
        is_transposed = flag->toBool();
      }
      const std::int64_t channels =
          is_transposed ? weight->tensor.size(0) : weight->tensor.size(1) * groups->toInt();
      std::vector<std::int64_t> shape(static_cast<std::size_t>(weight->tensor.dim()), kAnySize);
      shape[0] = 1;
      shape[1] = channels;
      note(*weight, std::move(shape), argument);
    } else if ((kind == "aten::lstm" || kind == "aten::gru" || kind == "aten::rnn_tanh") &&
               place == 0) {
      const Node* list = node.input(2)->node();
      if (list->kind() != c10::prim::ListConstruct || list->inputs().empty()) return false;
      const auto weight = weight_of(list->inputs().front(), 2);
      if (!weight) return false;
      note(*weight, {kAnySize, kAnySize, weight->tensor.size(1)}, argument);
    } else {
      return false;
    }
    return true;
  }

  /// A floating tensor that the model owns, with at least so many dimensions.
  [[nodiscard]] std::optional<Weight> weight_of(const Value* value, std::int64_t dimensions) const {
    Weight weight;
    const auto found = attribute(value, weight.name);
    if (!found || !found->isTensor()) return std::nullopt;
    weight.tensor = found->toTensor();
    const bool fits = weight.tensor.defined() && weight.tensor.is_floating_point() &&
                      weight.tensor.dim() >= dimensions;
    return fits ? std::optional(std::move(weight)) : std::nullopt;
  }

  /// @param name  gets the path from the model to it
  [[nodiscard]] std::optional<c10::IValue> attribute(const Value* value, std::string& name) const {
    if (value == self_) return c10::IValue(module_._ivalue());
    const Node* node = value->node();
    if (node->kind() != c10::prim::GetAttr) return std::nullopt;
    const auto owner = attribute(node->input(), name);
    if (!owner || !owner->isObject()) return std::nullopt;
    const std::string& member = node->s(c10::attr::name);
    name += (name.empty() ? "" : ".") + member;
    return owner->toObject()->getAttr(member);
  }

  static void note(const Weight& weight,
                   std::vector<std::int64_t> shape,
                   MethodArgument& argument) {
    argument.layer = weight.name;
    argument.dtype = core::dtype_name(capture::dtype_of(weight.tensor.scalar_type()));
    argument.shape = std::move(shape);
  }

  const torch::jit::Module& module_;
  const Value* self_;
  std::set<const Value*> seen_;
};

MethodArgument describe_argument(const c10::Argument& argument) {
  MethodArgument described{argument.name(), argument.type()->repr_str(), false, {}};
  if (argument.default_value()) {
    std::ostringstream text;
    text << *argument.default_value();
    described.has_default = true;
    described.default_value = text.str();
  }
  return described;
}

/// Adds what the weights of the model tell of its tensors.
void describe_by_weights(const torch::jit::Module& module,
                         const torch::jit::Method& method,
                         ModelDescription& description) {
  std::set<std::string> dtypes;
  for (const at::Tensor& weight : module.parameters()) {
    if (weight.is_floating_point()) {
      dtypes.emplace(core::dtype_name(capture::dtype_of(weight.scalar_type())));
    }
  }
  if (dtypes.size() == 1) description.dtype = *dtypes.begin();
  const auto graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  torch::jit::Inline(*graph);
  FirstLayers layers(module, graph->inputs().front());
  for (std::size_t i = 0; i < description.arguments.size() && i + 1 < graph->inputs().size(); ++i) {
    MethodArgument& argument = description.arguments[i];
    if (argument.type == "Tensor") layers.describe(graph->inputs()[i + 1], argument);
  }
}

}  // namespace

ModelDescription describe_model(const std::filesystem::path& path, const std::string& method) {
  return translated("reading the model", "free some, or take a smaller model", [&] {
    const torch::jit::Module module = load_module(path, at::kCPU);
    ModelDescription description{method, method_names(module), {}};
    const torch::jit::Method found = find_method(module, method, path);
    const c10::FunctionSchema& schema = found.function().getSchema();
    for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
      description.arguments.push_back(describe_argument(schema.arguments()[i]));
    }
    describe_by_weights(module, found, description);
    return description;
  });
}

}  // namespace repro_check::torchscript
