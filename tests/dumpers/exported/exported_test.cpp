// SPDX-License-Identifier: Apache-2.0
#include <ATen/Functions.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/exported/exported_module.h"
#include "tests/dumpers/model_file/zip_writer.h"
#include "tests/support/files.h"
#include "tests/support/temp_directory.h"

namespace repro_check::exported {
namespace {

using Json = nlohmann::ordered_json;
using test_support::TempDirectory;

Json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
Json whole(std::int64_t value) { return {{"as_int", value}}; }
Json size(const std::string& name) { return {{"as_sym_int", {{"as_name", name}}}}; }

Json node(const std::string& target,
          const std::vector<std::pair<std::string, Json>>& inputs,
          const std::vector<Json>& outputs) {
  Json made{{"target", target}, {"inputs", Json::array()}, {"outputs", outputs}};
  for (const auto& [name, argument] : inputs) {
    made["inputs"].push_back({{"name", name}, {"arg", argument}, {"kind", 1}});
  }
  made["metadata"] = {{"stack_trace", "File \"m.py\", line 7, in forward\n    y = f(x)"},
                      {"nn_module_stack", "k,,m.Net;k_layer,layer,torch.nn.Linear"}};
  return made;
}

Json graph_of(const std::vector<Json>& inputs,
              const std::vector<Json>& nodes,
              const std::vector<Json>& outputs) {
  return {{"inputs", inputs},
          {"outputs", outputs},
          {"nodes", nodes},
          {"tensor_values", Json::object()}};
}

/// What takes a tensor `x` of 2 to 8 rows and 3 columns, and has one parameter, `layer.weight`.
struct Sample {
  std::vector<Json> nodes;
  std::vector<Json> outputs;
  std::vector<Json> mutations;

  [[nodiscard]] Json model() const {
    Json graph = graph_of({tensor("p_weight"), tensor("x")}, nodes, outputs);
    const Json rows{{"as_expr", {{"expr_str", "Symbol('s0', integer=True)"}}}};
    graph["tensor_values"]["x"] = {{"dtype", 7}, {"sizes", {rows, whole(3)}}};
    Json results = mutations;
    std::string leaves;
    for (const Json& output : outputs) {
      results.push_back({{"user_output", {{"arg", output}}}});
      leaves += std::string(leaves.empty() ? "" : ",") +
                R"({"type": null, "context": null, "children_spec": []})";
    }
    const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
    const auto tuple = [](const std::string& parts) {
      return R"({"type": "builtins.tuple", "context": "null", "children_spec": [)" + parts + "]}";
    };
    const std::string none = R"({"type": "builtins.dict", "context": "[]", "children_spec": []})";
    const Json call{{"in_spec", "[1, " + tuple(tuple(leaf) + ", " + none) + "]"},
                    {"out_spec", "[1, " + tuple(leaves) + "]"},
                    {"forward_arg_names", {"x"}}};
    const Json weight{
        {"parameter", {{"arg", {{"name", "p_weight"}}}, {"parameter_name", "layer.weight"}}}};
    return {{"graph_module",
             {{"graph", graph},
              {"signature",
               {{"input_specs", {weight, {{"user_input", {{"arg", tensor("x")}}}}}},
                {"output_specs", results}}},
              {"module_call_graph", {{{"fqn", ""}, {"signature", call}}}}}},
            {"range_constraints", {{"s0", {{"min_val", 2}, {"max_val", 8}}}}},
            {"schema_version", {{"major", 8}, {"minor", 14}}}};
  }
};

std::vector<std::pair<std::string, std::string>> entries_of(const std::string& model) {
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  std::string bytes(weight.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), weight.data(), bytes.size());
  const Json meta{{"dtype", 7},
                  {"sizes", {whole(2), whole(3)}},
                  {"strides", {whole(3), whole(1)}},
                  {"storage_offset", whole(0)},
                  {"requires_grad", true}};
  const Json weights{
      {"config",
       {{"layer.weight",
         {{"path_name", "weight_0"}, {"use_pickle", false}, {"tensor_meta", meta}}}}}};
  return {{"m/archive_format", "pt2"},
          {"m/models/model.json", model},
          {"m/data/weights/model_weights_config.json", weights.dump()},
          {"m/data/weights/weight_0", bytes},
          {"m/data/constants/model_constants_config.json", R"({"config": {}})"}};
}

torch::jit::Module load(const std::string& model) {
  const TempDirectory dir;
  test_support::write_file(dir / "m.pt2", test::zip_holding(entries_of(model)));
  return load_exported(dir / "m.pt2", at::kCPU).module;
}

std::vector<c10::IValue> run(torch::jit::Module& module, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  return module.forward({x}).toTupleRef().elements().vec();
}

std::string refusal_of(const Sample& sample) {
  try {
    load(sample.model().dump());
  } catch (const core::Error& error) {
    return error.what();
  }
  return "loaded";
}

Sample linear() {
  return {{node("torch.ops.aten.linear.default",
                {{"input", tensor("x")}, {"weight", tensor("p_weight")}},
                {tensor("y")})},
          {tensor("y")},
          {}};
}

DOCTEST_TEST_CASE("an operator is called with the parameters of the file") {
  torch::jit::Module module = load(linear().model().dump());
  const at::Tensor x = at::rand({2, 3});
  const at::Tensor weight = module.attr("layer").toModule().attr("weight").toTensor();
  DOCTEST_CHECK(weight.requires_grad());
  DOCTEST_CHECK(at::equal(weight, at::arange(1, 7, at::kFloat).reshape({2, 3})));
  DOCTEST_CHECK(at::equal(run(module, x).at(0).toTensor(), at::linear(x, weight)));
}

DOCTEST_TEST_CASE("an input of another size or kind is refused by its name") {
  torch::jit::Module module = load(linear().model().dump());
  const auto said = [&](const at::Tensor& x) -> std::string {
    try {
      run(module, x);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "ran";
  };
  DOCTEST_CHECK(said(at::ones({8, 3})) == "ran");
  DOCTEST_CHECK(said(at::ones({9, 3})).find("\"x\" has size 9 in dimension 0") !=
                std::string::npos);
  DOCTEST_CHECK(said(at::ones({1, 3})).find("exported for 2 to 8") != std::string::npos);
  DOCTEST_CHECK(said(at::ones({2, 4})).find("exported for 3") != std::string::npos);
  DOCTEST_CHECK(said(at::ones({3})).find("has 1 dimensions") != std::string::npos);
}

DOCTEST_TEST_CASE("numbers of sizes, numbers for tensors and flags for scalars are Python's") {
  Sample sample;
  sample.nodes = {
      node("torch.ops.aten.sym_size.int", {{"self", tensor("x")}, {"dim", whole(0)}}, {size("n")}),
      node("_operator.mul", {{"a", size("n")}, {"b", whole(-3)}}, {size("m")}),
      node("_operator.floordiv", {{"a", size("m")}, {"b", whole(2)}}, {size("q")}),
      node("_operator.pow", {{"a", size("n")}, {"b", whole(3)}}, {size("p")}),
      node("torch.ops.aten.add.Tensor",
           {{"self", tensor("x")}, {"other", size("q")}},
           {tensor("y")}),
      node("torch.ops.aten.full.default",
           {{"size", {{"as_sym_ints", {{{"as_name", "n"}}, {{"as_int", 2}}}}}},
            {"fill_value", {{"as_bool", true}}},
            {"dtype", {{"as_scalar_type", 12}}}},
           {tensor("f")})};
  sample.outputs = {tensor("y"), size("q"), size("p"), tensor("f")};
  torch::jit::Module module = load(sample.model().dump());
  const at::Tensor x = at::rand({5, 3});
  const auto made = run(module, x);
  DOCTEST_CHECK(made.at(1).toInt() == -8);
  DOCTEST_CHECK(made.at(2).toInt() == 125);
  DOCTEST_CHECK(at::equal(made.at(0).toTensor(), at::add(x, -8)));
  DOCTEST_CHECK((made.at(3).toTensor().scalar_type() == at::kBool));
  DOCTEST_CHECK(made.at(3).toTensor().sizes().vec() == std::vector<std::int64_t>{5, 2});
}

Json graph_argument(const Json& graph) { return {{"as_graph", {{"name", "g"}, {"graph", graph}}}}; }

Json one_step(const std::string& target, const std::string& input, const std::string& output) {
  return graph_of({tensor(input)},
                  {node(target, {{"self", tensor(input)}}, {tensor(output)})},
                  {tensor(output)});
}

DOCTEST_TEST_CASE("every operator is called by its overload, used or not") {
  // TorchScript would take `view(Tensor, int[])`.
  Sample sample;
  sample.nodes = {node("torch.ops.aten.view.dtype",
                       {{"self", tensor("x")}, {"dtype", {{"as_scalar_type", 4}}}},
                       {tensor("y")})};
  sample.outputs = {tensor("y")};
  torch::jit::Module module = load(sample.model().dump());
  const at::Tensor x = at::rand({5, 3});
  DOCTEST_CHECK(at::equal(run(module, x).at(0).toTensor(), x.view(at::kInt)));
}

DOCTEST_TEST_CASE("conditions on sizes are those of Python") {
  const auto passes = [](const std::string& guard, std::int64_t rows) {
    Json model = linear().model();
    model["guards_code"] = {guard};
    torch::jit::Module module = load(model.dump());
    try {
      run(module, at::ones({rows, 3}));
      return true;
    } catch (const std::exception& error) {
      DOCTEST_CHECK(std::string(error.what()).find(guard) != std::string::npos);
      return false;
    }
  };
  const std::string rows = "L['x'].size()[0]";
  DOCTEST_CHECK(passes("(2*" + rows + ") == (" + rows + " + 4)", 4));
  DOCTEST_CHECK_FALSE(passes("(2*" + rows + ") == (" + rows + " + 4)", 5));
  DOCTEST_CHECK(passes(rows + " % 2 != 0 and not " + rows + " == 5", 7));
  DOCTEST_CHECK_FALSE(passes(rows + " % 2 != 0 and not " + rows + " == 5", 5));
  DOCTEST_CHECK(passes("-" + rows + " // 2 == -3 or " + rows + " > 7", 5));
  DOCTEST_CHECK_FALSE(passes(rows + " - 1 - 1 != 3", 5));
  DOCTEST_CHECK(passes(rows + " ** 2 == 0", 5));  // not known, and said
  for (const char* text : {"", "L['x']", "L['z'].size()[0] == 1", "1 <", "((((", "f(1)"}) {
    Json model = linear().model();
    model["guards_code"] = {text};
    const TempDirectory dir;
    test_support::write_file(dir / "m.pt2", test::zip_holding(entries_of(model.dump())));
    DOCTEST_CHECK(load_exported(dir / "m.pt2", at::kCPU).warnings.size() == 1);
  }
}

DOCTEST_TEST_CASE("branches run one side, and loops end") {
  Sample sample = linear();
  sample.nodes = {
      node("torch.ops.aten.sum.default", {{"self", tensor("x")}}, {tensor("s")}),
      node("torch.ops.aten.gt.Scalar", {{"self", tensor("s")}, {"other", whole(0)}}, {tensor("p")}),
      node("torch.ops.higher_order.cond",
           {{"", tensor("p")},
            {"", graph_argument(one_step("torch.ops.aten.neg.default", "x", "a"))},
            {"", graph_argument(one_step("torch.ops.aten.exp.default", "x", "a"))},
            {"", {{"as_tensors", {{{"name", "x"}}}}}}},
           {tensor("y")})};
  torch::jit::Module module = load(sample.model().dump());
  const at::Tensor ones = at::ones({2, 3});
  DOCTEST_CHECK(at::equal(run(module, ones).at(0).toTensor(), -ones));
  DOCTEST_CHECK(at::equal(run(module, -ones).at(0).toTensor(), at::exp(-ones)));

  const Json holds =
      graph_of({tensor("t")},
               {node("torch.ops.aten.sum.default", {{"self", tensor("t")}}, {tensor("s")}),
                node("torch.ops.aten.lt.Scalar",
                     {{"self", tensor("s")}, {"other", whole(100)}},
                     {tensor("p")})},
               {tensor("p")});
  const Json twice = graph_of({tensor("t")},
                              {node("torch.ops.aten.mul.Tensor",
                                    {{"self", tensor("t")}, {"other", whole(2)}},
                                    {tensor("u")})},
                              {tensor("u")});
  sample.nodes = {node("torch.ops.higher_order.while_loop",
                       {{"", graph_argument(holds)},
                        {"", graph_argument(twice)},
                        {"", {{"as_tensors", {{{"name", "x"}}}}}},
                        {"", {{"as_tensors", Json::array()}}}},
                       {tensor("y")})};
  module = load(sample.model().dump());
  DOCTEST_CHECK(at::equal(run(module, ones).at(0).toTensor(), at::mul(ones, 32)));
}

DOCTEST_TEST_CASE("a parameter that is written to holds what was written, after the run") {
  Sample sample = linear();
  sample.nodes = {
      node("torch.ops.aten.neg.default", {{"self", tensor("p_weight")}}, {tensor("y")})};
  sample.mutations = {
      {{"parameter_mutation", {{"arg", {{"name", "y"}}}, {"parameter_name", "layer.weight"}}}}};
  torch::jit::Module module = load(sample.model().dump());
  run(module, at::ones({2, 3}));
  const at::Tensor weight = module.attr("layer").toModule().attr("weight").toTensor();
  DOCTEST_CHECK(at::equal(weight.detach(), -at::arange(1, 7, at::kFloat).reshape({2, 3})));
}

DOCTEST_TEST_CASE("what is not known is refused with its line") {
  const auto with = [](const std::string& target) {
    Sample sample = linear();
    sample.nodes[0]["target"] = target;
    return refusal_of(sample);
  };
  DOCTEST_CHECK(with("torch.ops.aten.linear.default") == "loaded");
  DOCTEST_CHECK(
      with("torch.ops.mine.op.default").find("m.py:7: the operator torch.ops.mine.op.default") !=
      std::string::npos);
  DOCTEST_CHECK(with("torch.ops.aten.linear.out").find("its argument out") != std::string::npos);
  DOCTEST_CHECK(with("torch.ops.higher_order.scan").find("is not known") != std::string::npos);
  DOCTEST_CHECK(with("math.exp").find("the call of math.exp is not known") != std::string::npos);

  Sample sample = linear();
  sample.nodes = {node("torch.ops.higher_order.cond",
                       {{"", {{"as_bool", true}}},
                        {"", graph_argument(one_step("torch.ops.aten.neg.default", "x", "a"))},
                        {"", graph_argument(graph_of({tensor("x")}, {}, {}))},
                        {"", {{"as_tensors", {{{"name", "x"}}}}}}},
                       {tensor("y")})};
  DOCTEST_CHECK(refusal_of(sample).find("whose results have several types") != std::string::npos);
}

/// Every value of a document, by pointer.
void pointers_in(const Json& value, const std::string& at, std::vector<std::string>& into) {
  into.push_back(at);
  if (value.is_object()) {
    for (const auto& item : value.items()) pointers_in(item.value(), at + "/" + item.key(), into);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      pointers_in(value[i], at + "/" + std::to_string(i), into);
    }
  }
}

DOCTEST_TEST_CASE("a program with any value exchanged is refused, raises or runs") {
  Sample sample = linear();
  sample.nodes.push_back(node("torch.ops.aten.split.Tensor",
                              {{"self", tensor("y")}, {"split_size", whole(1)}, {"dim", whole(1)}},
                              {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}}));
  sample.outputs = {tensor("a"), tensor("b")};
  const Json model = sample.model();
  std::vector<std::string> pointers;
  pointers_in(model, "", pointers);
  const std::vector<Json> others{
      nullptr, -1, 1e300, "x", "y", Json::array(), Json::object(), tensor("x")};
  std::size_t refused = 0;
  std::mt19937 generator(1);
  for (const std::string& pointer : pointers) {
    for (int i = 0; i < 3; ++i) {
      Json changed = model;
      changed[Json::json_pointer(pointer)] = others[generator() % others.size()];
      try {
        torch::jit::Module module = load(changed.dump());
        run(module, at::ones({2, 3}));
      } catch (const std::exception&) {
        ++refused;
      }
    }
  }
  DOCTEST_CHECK(refused > pointers.size());
}

}  // namespace
}  // namespace repro_check::exported
