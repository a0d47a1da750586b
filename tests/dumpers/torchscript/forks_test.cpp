// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "fixtures.h"

namespace repro_check::torchscript {
namespace {

using test::make_linear;
using test::make_module;
using test::MemorySink;
using test_support::TempDirectory;

constexpr int kRuns = 20;

/// `fork`, as it is spelled in saved code.
class ForkResolver final : public torch::jit::Resolver {
 public:
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(
      const std::string& name,
      torch::jit::GraphFunction& method,
      const torch::jit::SourceRange& range) override {
    if (name == "fork") return torch::jit::SpecialFormValue::create(c10::prim::fork);
    return torch::jit::nativeResolver()->resolveValue(name, method, range);
  }
};

torch::jit::Module make_forking(
    const std::string& type,
    const std::vector<std::pair<std::string, torch::jit::Module>>& children,
    const std::string& code) {
  torch::jit::Module module = make_module(type, children, "");
  module.define(code, std::make_shared<ForkResolver>());
  return module;
}

/// What each lane did, in order.
using Lanes = std::map<std::string, std::vector<std::string>>;

Lanes lanes_of(const MemorySink& sink) {
  Lanes lanes;
  const std::vector<std::string> places = sink.places();
  const std::vector<std::string> results = sink.results();
  for (std::size_t i = 0; i < places.size(); ++i) {
    lanes[core::lane_text(sink.records[i].lane)].push_back(places[i] + " = " + results[i]);
  }
  return lanes;
}

Lanes record_lanes(const std::filesystem::path& model) {
  configs::RunSpec run = test::run_of(model);
  run.interop_threads = 4;
  run.calls[0].push_back(test::generated({48, 48}));
  MemorySink sink;
  prepare_run(run, {})->record(sink, {});
  return lanes_of(sink);
}

void expect_stable(const torch::jit::Module& module, const std::vector<std::string>& lanes) {
  const TempDirectory dir;
  module.save((dir / "m.pt").string());
  const Lanes first = record_lanes(dir / "m.pt");
  std::vector<std::string> names;
  for (const auto& [lane, records] : first) names.push_back(lane);
  DOCTEST_CHECK(names == lanes);
  for (int run = 1; run < kRuns; ++run) DOCTEST_REQUIRE(record_lanes(dir / "m.pt") == first);
}

const char* const kWork =
    "def work(self, x: Tensor, k: int) -> Tensor:\n"
    "  for i in range(k):\n"
    "    x = torch.tanh(torch.mm(x, x))\n"
    "  return x\n";

DOCTEST_TEST_CASE("what is forked is a lane of its own, whichever thread runs it") {
  expect_stable(make_forking("Net",
                             {},
                             std::string(kWork) + "def forward(self, x: Tensor) -> Tensor:\n"
                                                  "  a = fork(self.work, x, 9)\n"
                                                  "  b = torch.relu(x)\n"
                                                  "  return torch.sin(torch.wait(a) + b)\n"),
                {"main", "main.0"});
}

DOCTEST_TEST_CASE("eight forks overlap, and the rest goes on wherever the last of them ended") {
  std::string code = std::string(kWork) + "def forward(self, x: Tensor) -> Tensor:\n";
  std::string sum = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    code += "  f" + n + " = fork(self.work, x * " + n + ".5, " + n + " + 2)\n";
    sum += " + torch.wait(f" + n + ")";
  }
  code += "  y = " + sum + "\n  g = fork(self.work, y, 2)\n";
  code += "  return torch.cos(y) + torch.wait(g)\n";
  std::vector<std::string> lanes{"main"};
  for (int i = 0; i <= 8; ++i) lanes.push_back("main." + std::to_string(i));
  expect_stable(make_forking("Net", {}, code), lanes);
}

DOCTEST_TEST_CASE("forks in forks, in loops and of submodules") {
  const auto leaf = make_module("Leaf",
                                {{"lin", make_linear("Linear", 0.5)}},
                                "def forward(self, x: Tensor) -> Tensor:\n"
                                "  return torch.tanh(torch.mm(x, x))\n");
  expect_stable(make_forking("Net",
                             {{"leaf", leaf}},
                             "def pair(self, x: Tensor) -> Tensor:\n"
                             "  a = fork(self.leaf.forward, x)\n"
                             "  b = fork(self.leaf.forward, x + 1)\n"
                             "  return torch.wait(a) - torch.wait(b)\n"
                             "def forward(self, x: Tensor) -> Tensor:\n"
                             "  y = x\n"
                             "  for i in range(2):\n"
                             "    f = fork(self.pair, y * 0.5)\n"
                             "    g = fork(self.pair, y * 0.25)\n"
                             "    y = torch.wait(f) + torch.wait(g)\n"
                             "  return torch.cos(y)\n"),
                {"main",
                 "main.0",
                 "main.0.0",
                 "main.0.1",
                 "main.1",
                 "main.1.0",
                 "main.1.1",
                 "main.2",
                 "main.2.0",
                 "main.2.1",
                 "main.3",
                 "main.3.0",
                 "main.3.1"});
}

}  // namespace
}  // namespace repro_check::torchscript
