// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <ATen/Functions.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/serialization/import.h>

#include <string>
#include <vector>

#include "dumpers/capture/engine/capture.h"
#include "dumpers/torchscript/method_runner.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "fixtures.h"

namespace repro_check::torchscript {
namespace {

using test::make_linear;
using test::make_module;
using test::MemorySink;
using test_support::TempDirectory;

/// Lets methods call functions of a compilation unit by name.
class FreeFunctions final : public torch::jit::Resolver {
 public:
  explicit FreeFunctions(std::shared_ptr<torch::jit::CompilationUnit> unit)
      : unit_(std::move(unit)) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(
      const std::string& name,
      torch::jit::GraphFunction& method,
      const torch::jit::SourceRange& range) override {
    if (torch::jit::Function* function = unit_->find_function("__torch__." + name)) {
      return std::make_shared<torch::jit::FunctionValue>(function);
    }
    return torch::jit::nativeResolver()->resolveValue(name, method, range);
  }

 private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
};

torch::jit::Module make_block(const std::string& type) {
  return make_module(type,
                     {{"lin", make_linear("Linear", 0.5)}},
                     "def helper(self, x: Tensor) -> Tensor:\n"
                     "  return torch.relu(x)\n"
                     "def forward(self, x: Tensor) -> Tensor:\n"
                     "  y = self.lin.forward(x)\n"
                     "  return self.helper(y)\n");
}

/// Two containers, a loop over one of them, nesting, and a module reached by two names.
torch::jit::Module make_nested(bool shared = true) {
  const auto layers =
      make_module("ModuleList", {{"0", make_block("Block")}, {"1", make_block("Block")}}, "");
  const auto inner = make_module("Sequential",
                                 {{"0", make_linear("Linear", 0.25)}},
                                 "def forward(self, x: Tensor) -> Tensor:\n"
                                 "  return getattr(self, \"0\").forward(x)\n");
  const auto head = make_module("Sequential",
                                {{"0", inner}, {"1", make_linear("Linear", 1)}},
                                "def forward(self, x: Tensor) -> Tensor:\n"
                                "  y = getattr(self, \"0\").forward(x)\n"
                                "  return getattr(self, \"1\").forward(y)\n");
  const auto first = make_linear("Linear", 2);
  const auto second = shared ? first : make_linear("Linear", 2);
  return make_module("Net",
                     {{"layers", layers}, {"head", head}, {"first", first}, {"second", second}},
                     "def forward(self, x: Tensor) -> Tensor:\n"
                     "  x = getattr(self.layers, \"0\").forward(x)\n"
                     "  x = getattr(self.layers, \"1\").forward(x)\n"
                     "  x = self.head.forward(x)\n"
                     "  if bool(x.sum() > 0):\n"
                     "    x = self.first.forward(x)\n"
                     "  for i in range(2):\n"
                     "    x = self.second.forward(x)\n"
                     "  return x\n");
}

MemorySink& recorded(configs::RunSpec run, MemorySink& sink) {
  prepare_run(run, {})->record(sink, {});
  return sink;
}

configs::RunSpec run_with_input(const std::filesystem::path& model) {
  configs::RunSpec run = test::run_of(model);
  run.calls[0].push_back(test::generated({2, 4}, configs::Distribution::kOnes));
  return run;
}

std::string lines_of(const core::OpRecord& record) {
  std::string text;
  for (const core::SourceFrame& frame : record.site->frames) {
    text += frame.function + ":" + std::to_string(frame.line) + " ";
  }
  return text;
}

DOCTEST_TEST_CASE("module paths are those of named_modules, containers included") {
  const TempDirectory dir;
  make_nested().save((dir / "m.pt").string());
  MemorySink sink;
  recorded(run_with_input(dir / "m.pt"), sink);
  DOCTEST_CHECK(sink.places() == std::vector<std::string>{"aten::linear layers.0.lin",
                                                          "aten::relu layers.0",
                                                          "aten::linear layers.1.lin",
                                                          "aten::relu layers.1",
                                                          "aten::linear head.0.0",
                                                          "aten::linear head.1",
                                                          "aten::sum ",
                                                          "aten::gt ",
                                                          "aten::item ",
                                                          "aten::linear first",
                                                          "aten::linear first",
                                                          "aten::linear first"});
  DOCTEST_CHECK(sink.records[0].site->module_type == "Linear");
  DOCTEST_CHECK(sink.records[1].site->module_type == "Block");
  DOCTEST_CHECK(sink.records[6].site->module_type == "Net");
}

DOCTEST_TEST_CASE("source lines run from the operator out through its callers") {
  const TempDirectory dir;
  make_nested().save((dir / "m.pt").string());
  MemorySink sink;
  recorded(run_with_input(dir / "m.pt"), sink);
  DOCTEST_CHECK(lines_of(sink.records[0]) == "forward:2 forward:4 forward:2 ");
  DOCTEST_CHECK(lines_of(sink.records[1]) == "helper:2 forward:5 forward:2 ");
  DOCTEST_CHECK(lines_of(sink.records[2]) == "forward:2 forward:4 forward:3 ");
  DOCTEST_CHECK(lines_of(sink.records[4]) == "forward:2 forward:2 forward:2 forward:4 ");
  // One place, one object: a loop passes it twice.
  DOCTEST_CHECK(sink.records[10].site == sink.records[11].site);
  DOCTEST_CHECK(lines_of(sink.records[11]) == "forward:2 forward:8 ");
}

DOCTEST_TEST_CASE("free functions are places of the module that calls them") {
  const TempDirectory dir;
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  unit->define(c10::QualifiedName("__torch__"),
               "def twice(x: Tensor) -> Tensor:\n"
               "  return torch.mul(x, 2)\n",
               torch::jit::nativeResolver(),
               nullptr);
  auto block = make_module("Block", {}, "");
  block.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  y = torch.neg(x)\n"
      "  return torch.add(twice(y), y)\n",
      std::make_shared<FreeFunctions>(unit));
  const auto net = make_module("Net",
                               {{"block", block}},
                               "def forward(self, x: Tensor) -> Tensor:\n"
                               "  return self.block.forward(x)\n");
  net.save((dir / "m.pt").string());
  MemorySink sink;
  recorded(run_with_input(dir / "m.pt"), sink);
  DOCTEST_CHECK(sink.places() ==
                std::vector<std::string>{"aten::neg block", "aten::mul block", "aten::add block"});
  DOCTEST_CHECK(lines_of(sink.records[1]) == "twice:2 forward:3 forward:2 ");
}

/// What `model(x)` runs under the same pin, without any of our instrumentation.
std::vector<std::string> bare_results(const std::filesystem::path& file) {
  const ExecutorPin pin(false);
  const at::NoGradGuard no_grad;
  torch::jit::Module module = torch::jit::load(file.string());
  const at::Tensor input = at::ones({2, 4});
  MemorySink sink;
  capture::Capture capture({}, sink, nullptr);
  at::manual_seed(7);
  {
    const capture::Capture::Scope scope(capture);
    module.forward({input});
  }
  capture.rethrow_failure();
  return sink.results();
}

DOCTEST_TEST_CASE("the instrumented graph runs the operators of a bare forward, in its order") {
  const std::vector<torch::jit::Module> modules = {
      make_nested(),
      make_module("Chunks",
                  {},
                  "def forward(self, x: Tensor) -> Tensor:\n"
                  "  a, b = torch.chunk(x, 2, 1)\n"
                  "  return torch.add(a, b)\n"),
      make_module("DeadCode",
                  {{"lin", make_linear("Linear", 1)}},
                  "def forward(self, x: Tensor) -> Tensor:\n"
                  "  unused = self.lin.forward(x)\n"
                  "  also = torch.exp(x)\n"
                  "  return torch.add(torch.rand_like(x), x)\n"),
      make_module("InPlace",
                  {},
                  "def forward(self, x: Tensor) -> Tensor:\n"
                  "  y = x.clone()\n"
                  "  y[0] = 3.0\n"
                  "  y.add_(1)\n"
                  "  while bool(y.sum() < 100):\n"
                  "    y = y * 2\n"
                  "  return y\n")};
  for (const auto& module : modules) {
    const TempDirectory dir;
    module.save((dir / "m.pt").string());
    configs::RunSpec run = run_with_input(dir / "m.pt");
    run.model.mode = configs::ModelMode::kAsSaved;
    MemorySink sink;
    recorded(run, sink);
    DOCTEST_CHECK(sink.results() == bare_results(dir / "m.pt"));
  }
}

DOCTEST_TEST_CASE("an audit of the optimising executor finds the same places") {
  const TempDirectory dir;
  make_nested(false).save((dir / "m.pt").string());
  configs::RunSpec run = run_with_input(dir / "m.pt");
  MemorySink pinned;
  recorded(run, pinned);
  run.optimize_executor = true;
  MemorySink optimised;
  recorded(run, optimised);
  DOCTEST_CHECK(optimised.places() == pinned.places());
}

}  // namespace
}  // namespace repro_check::torchscript
