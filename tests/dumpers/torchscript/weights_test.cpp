// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <ATen/Functions.h>
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/torchscript/model.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "fixtures.h"

namespace repro_check::torchscript {
namespace {

using test::contains;
using test::make_linear;
using test::make_module;
using test_support::TempDirectory;
using Names = std::vector<std::string>;

/// `lin` and a `scale` that is a plain attribute; `tied` is lin.weight under another name.
torch::jit::Module net(double fill, double scale, bool is_tied = false) {
  auto module = make_module("Net", {{"lin", make_linear("Linear", fill)}}, "");
  module.register_attribute("scale", c10::TensorType::get(), at::full({3}, scale));
  if (is_tied) {
    module.register_parameter(
        "tied", module.attr("lin").toModule().attr("weight").toTensor(), false);
  }
  module.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  return torch.mul(self.lin.forward(x), self.scale.sum())\n");
  return module;
}

class Files {
 public:
  std::filesystem::path save(const std::string& name, const torch::jit::Module& module) const {
    module.save((directory_ / name).string());
    return directory_ / name;
  }

 private:
  TempDirectory directory_;
};

configs::RunSpec taking(const std::filesystem::path& model,
                        const std::filesystem::path& from,
                        Names names = {}) {
  configs::RunSpec run = test::run_of(model);
  run.model.weights_from = from;
  run.model.weights = std::move(names);
  run.calls[0].push_back(test::generated({2, 4}));
  return run;
}

double value_of(const LoadedModel& model, const std::string& name) {
  for (const OwnedTensor& owned : owned_tensors(model.module)) {
    if (owned.name == name) return owned.tensor.flatten()[0].item<double>();
  }
  throw std::runtime_error("no " + name);
}

core::Error failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    return error;
  }
  throw std::runtime_error("nothing was thrown");
}

DOCTEST_TEST_CASE("named tensors of another version take the place of this one's") {
  const Files files;
  const auto first = files.save("v1.pt", net(0.5, 2));
  const auto second = files.save("v2.pt", net(0.75, 3));
  const LoadedModel some = load_model(taking(first, second, {"lin.weight"}), at::kCPU);
  DOCTEST_CHECK(value_of(some, "lin.weight") == 0.75);
  DOCTEST_CHECK(value_of(some, "scale") == 2);
  const LoadedModel all = load_model(taking(first, second), at::kCPU);
  DOCTEST_CHECK(value_of(all, "lin.weight") == 0.75);
  DOCTEST_CHECK(value_of(all, "scale") == 3);
  configs::RunSpec cast = taking(first, second, {"scale"});
  cast.dtype = core::Dtype::kFloat64;
  const LoadedModel doubles = load_model(cast, at::kCPU);
  DOCTEST_CHECK(value_of(doubles, "scale") == 3);
  DOCTEST_CHECK(value_of(doubles, "lin.weight") == 0.5);
}

DOCTEST_TEST_CASE("the manifest says what was taken, and from which file") {
  const Files files;
  const auto first = files.save("v1.pt", net(0.5, 2));
  const auto second = files.save("v2.pt", net(0.75, 3));
  const auto record = [](const configs::RunSpec& run) {
    test::MemorySink sink;
    return prepare_run(run, {})->record(sink, {});
  };
  const auto fact = [](const core::RunManifest& manifest, const std::string& name) {
    for (const auto& each : manifest.environment) {
      if (each.name == name) return each.value;
    }
    return std::string("absent");
  };
  const core::RunManifest some = record(taking(first, second, {"scale", "lin.bias"}));
  DOCTEST_CHECK(some.model_digest == core::digest_file(first));
  DOCTEST_CHECK(fact(some, "model.weights_path") == second.string());
  DOCTEST_CHECK(fact(some, "model.weights_digest") == core::to_hex(core::digest_file(second)));
  DOCTEST_CHECK(fact(some, "model.weights") == "scale, lin.bias");
  DOCTEST_CHECK(fact(record(taking(first, second)), "model.weights") == "all");
  configs::RunSpec plain = taking(first, second);
  plain.model.weights_from.reset();
  DOCTEST_CHECK(fact(record(plain), "model.weights_digest") == "absent");
}

DOCTEST_TEST_CASE("versions are compared bit by bit") {
  const Files files;
  auto before = net(0.5, 2);
  auto after = net(0.5, 2);
  before.attr("lin").toModule().attr("bias").toTensor()[1] = 0.0;
  after.attr("lin").toModule().attr("bias").toTensor()[1] = -0.0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (auto* module : {&before, &after}) module->attr("scale").toTensor()[0] = nan;
  const WeightVersions versions =
      compare_weights(files.save("v1.pt", before), files.save("v2.pt", after));
  DOCTEST_CHECK(versions.obstacle.empty());
  DOCTEST_CHECK(versions.names == Names{"scale", "lin.weight", "lin.bias"});
  DOCTEST_REQUIRE(versions.different.size() == 1);
  DOCTEST_CHECK(versions.different[0].names == Names{"lin.bias"});
  DOCTEST_CHECK(versions.different[0].elements == 4);
  DOCTEST_CHECK(versions.different[0].differing == 1);
}

DOCTEST_TEST_CASE("tensors that share memory are one, under any of their names") {
  const Files files;
  const auto first = files.save("v1.pt", net(0.5, 2, true));
  const auto second = files.save("v2.pt", net(0.75, 2, true));
  const WeightVersions versions = compare_weights(first, second);
  DOCTEST_REQUIRE(versions.different.size() == 1);
  DOCTEST_CHECK(versions.different[0].names == Names{"tied", "lin.weight"});
  DOCTEST_CHECK(versions.different[0].elements == 16);
  DOCTEST_CHECK(versions.different[0].differing == 16);
  const LoadedModel model = load_model(taking(first, second, {"lin.weight"}), at::kCPU);
  DOCTEST_CHECK(value_of(model, "tied") == 0.75);
  DOCTEST_CHECK(value_of(model, "lin.weight") == 0.75);

  auto loose = net(0.5, 2, true);
  loose.setattr("tied", at::full({4, 4}, 0.5));
  const WeightVersions untied = compare_weights(first, files.save("v3.pt", loose));
  DOCTEST_CHECK(contains(untied.obstacle,
                         "lin.weight shares memory with tied otherwise in " + first.string()));
}

DOCTEST_TEST_CASE("a file whose tensors cannot be taken is refused, saying why") {
  const Files files;
  const auto model = files.save("v1.pt", net(0.5, 2));
  const auto refusal = [&](const torch::jit::Module& other, Names names = {}) {
    const auto from = files.save("v2.pt", other);
    const core::Error error =
        failure_of([&] { load_model(taking(model, from, std::move(names)), at::kCPU); });
    DOCTEST_CHECK((error.kind() == core::ErrorKind::kUsage));
    return std::string(error.what());
  };
  DOCTEST_CHECK(contains(refusal(net(1, 1), {"lin.wieght"}), "did you mean \"lin.weight\"?"));

  auto more = net(1, 1);
  more.register_parameter("extra", at::ones({2}), false);
  DOCTEST_CHECK(contains(refusal(more), "extra is only in "));

  auto shape = net(1, 1);
  shape.setattr("scale", at::ones({4}));
  DOCTEST_CHECK(contains(refusal(shape), "scale is float32 [3] in "));
  auto dtype = net(1, 1);
  dtype.setattr("scale", at::ones({3}, at::kDouble));
  DOCTEST_CHECK(contains(refusal(dtype), "float64 [3] in "));

  torch::jit::Module frozen("__torch__.Frozen");
  frozen.define("def forward(self, x: Tensor) -> Tensor:\n  return x\n");
  DOCTEST_CHECK(contains(refusal(frozen), "no named parameters or buffers, as in a frozen model"));
}

}  // namespace
}  // namespace repro_check::torchscript
