// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <ATen/Functions.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/torchscript/model.h"
#include "dumpers/torchscript/torchscript_run.h"
#include "fixtures.h"
#include "tests/support/files.h"

namespace repro_check::torchscript {
namespace {

using test::contains;
using test::make_linear;
using test::make_module;
using test::MemorySink;
using test_support::TempDirectory;

struct Recording {
  MemorySink sink;
  core::RunManifest manifest;
};

void record(const configs::RunSpec& run, Recording& into) {
  into.manifest = prepare_run(run, {})->record(into.sink, {});
}

core::Error failure_of(const configs::RunSpec& run) {
  Recording recording;
  try {
    record(run, recording);
  } catch (const core::Error& error) {
    return error;
  }
  throw std::runtime_error("the run did not fail");
}

bool has_warning(const core::RunManifest& manifest, const std::string& part) {
  return std::ranges::any_of(manifest.warnings,
                             [&](const std::string& text) { return contains(text, part); });
}

std::filesystem::path saved(const TempDirectory& dir, const torch::jit::Module& module) {
  module.save((dir / "m.pt").string());
  return dir / "m.pt";
}

std::filesystem::path saved(const TempDirectory& dir, const std::string& code) {
  return saved(dir, make_module("Net", {}, code));
}

configs::RunSpec with_input(const std::filesystem::path& model) {
  configs::RunSpec run = test::run_of(model);
  run.calls[0].push_back(test::generated({2, 4}));
  return run;
}

DOCTEST_TEST_CASE("the manifest says what ran, with inputs, weights and settings") {
  const TempDirectory dir;
  auto holder = make_module("Net", {{"lin", make_linear("Linear", 0.5)}}, "");
  holder.register_buffer("offset", at::ones({4}));
  holder.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  return torch.add(self.lin.forward(x), self.offset)\n");
  Recording recording;
  record(with_input(saved(dir, holder)), recording);
  const core::RunManifest& manifest = recording.manifest;

  DOCTEST_CHECK(manifest.tool_version == REPRO_CHECK_VERSION);
  DOCTEST_CHECK(manifest.model_digest == core::digest_file(dir / "m.pt"));
  DOCTEST_CHECK(manifest.trace.operator_calls() == recording.sink.records.size());
  DOCTEST_CHECK(manifest.trace.digest_algorithm == core::kDigestAlgorithm);
  DOCTEST_CHECK(manifest.created.size() == std::string("2000-01-01T00:00:00Z").size());
  std::vector<std::string> names;
  for (const auto& tensor : manifest.named_tensors) names.push_back(tensor.name);
  DOCTEST_CHECK(names == std::vector<std::string>{"x", "lin.weight", "lin.bias", "offset"});
  DOCTEST_CHECK(manifest.named_tensors[3].kind == core::NamedTensorKind::kBuffer);
  for (const char* setting : {"jit.optimize", "jit.profiling", "generator.cpu"}) {
    DOCTEST_CHECK(std::ranges::count(manifest.settings, setting, &core::Setting::name) == 1);
  }

  const core::OpRecord& linear = recording.sink.records.at(0);
  std::vector<std::string> tensor_names;
  for (const auto& tensor : linear.tensors) tensor_names.push_back(tensor.name);
  DOCTEST_CHECK(tensor_names ==
                std::vector<std::string>{"input:x", "state:lin.weight", "state:lin.bias", ""});
}

DOCTEST_TEST_CASE("calls go in order, and their inputs are named by call") {
  const TempDirectory dir;
  auto net = make_module("Net", {}, "");
  net.register_buffer("seen", at::zeros({2, 4}));
  net.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  self.seen.add_(x)\n"
      "  return self.seen\n");
  configs::RunSpec run = with_input(saved(dir, net));
  run.calls.push_back(run.calls[0]);
  Recording recording;
  record(run, recording);
  DOCTEST_REQUIRE(recording.sink.records.size() == 2);
  DOCTEST_CHECK(recording.sink.records[1].step == 1);
  DOCTEST_REQUIRE(recording.sink.returned.size() == 2);
  DOCTEST_CHECK(recording.sink.returned[0].index == 1);
  DOCTEST_CHECK(recording.sink.returned[1].index == 3);
  DOCTEST_CHECK(recording.sink.returned[1].step == 1);
  DOCTEST_CHECK(recording.sink.returned[1].arguments[0].name == "out");
  DOCTEST_CHECK(recording.sink.returned[1].tensors[0].producer == 2);
  DOCTEST_CHECK(recording.manifest.named_tensors[1].name == "x@2");
  DOCTEST_CHECK(recording.sink.results()[0] != recording.sink.results()[1]);
}

DOCTEST_TEST_CASE("a model that writes into its input does not spoil the next call's") {
  const TempDirectory dir;
  configs::RunSpec run = with_input(saved(dir,
                                          "def forward(self, x: Tensor) -> Tensor:\n"
                                          "  return x.mul_(3)\n"));
  run.calls.push_back(run.calls[0]);
  Recording recording;
  record(run, recording);
  DOCTEST_CHECK(recording.sink.results()[0] == recording.sink.results()[1]);
}

DOCTEST_TEST_CASE("an exception names operator, module and line") {
  const TempDirectory dir;
  const auto block = make_module("Block",
                                 {},
                                 "def forward(self, x: Tensor) -> Tensor:\n"
                                 "  y = torch.neg(x)\n"
                                 "  return torch.matmul(y, x)\n");
  const auto net = make_module("Net",
                               {{"block", block}},
                               "def forward(self, x: Tensor) -> Tensor:\n"
                               "  return self.block.forward(x)\n");
  const core::Error error = failure_of(with_input(saved(dir, net)));
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kRunFailed);
  DOCTEST_CHECK(contains(error.what(), "op 1 aten::matmul (block, "));
  DOCTEST_CHECK(contains(error.what(), ":3): "));
  DOCTEST_CHECK(contains(error.what(), "shapes cannot be multiplied (2x4 and 2x4)"));
  DOCTEST_CHECK_FALSE(contains(error.what(), "frame #"));
}

DOCTEST_TEST_CASE("a raise is told from the operator before it") {
  const TempDirectory dir;
  const core::Error error =
      failure_of(with_input(saved(dir,
                                  "def forward(self, x: Tensor) -> Tensor:\n"
                                  "  y = torch.neg(x)\n"
                                  "  assert y.size(0) == 3, \"not three rows\"\n"
                                  "  return y\n")));
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kRunFailed);
  DOCTEST_CHECK(contains(error.what(), "not three rows"));
  DOCTEST_CHECK(contains(error.what(), ":3: "));
  DOCTEST_CHECK(contains(error.what(), "(after op "));
}

DOCTEST_TEST_CASE("determinism refused says what to do") {
  const TempDirectory dir;
  const std::string code =
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  i = torch.zeros([3], dtype=4)\n"
      "  return torch.put(x, i, torch.ones([3]))\n";
  configs::RunSpec run = with_input(saved(dir, code));
  run.determinism = core::DeterminismMode::kError;
  const core::Error error = failure_of(run);
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kRunFailed);
  DOCTEST_CHECK(contains(error.what(), "aten::put"));
  DOCTEST_CHECK(contains(error.hint(), "\"determinism\": \"warn\""));

  run.determinism = core::DeterminismMode::kWarn;
  Recording recording;
  record(run, recording);
  DOCTEST_CHECK(has_warning(recording.manifest, "deterministic implementation"));
}

DOCTEST_TEST_CASE("a call that this LibTorch no longer has is not put down to the inputs") {
  const TempDirectory dir;
  const core::Error error = failure_of(
      with_input(saved(dir,
                       "def forward(self, x: Tensor) -> Tensor:\n"
                       "  assert x.size(0) == 3, \"symeig was deprecated and is now removed\"\n"
                       "  return x\n")));
  DOCTEST_CHECK(contains(error.hint(), "\"recorder\""));
  DOCTEST_CHECK_FALSE(contains(error.hint(), "compare the inputs"));
}

DOCTEST_TEST_CASE("what fails after weights and inputs were cast may be due to the cast") {
  const TempDirectory dir;
  configs::RunSpec run =
      with_input(saved(dir,
                       "def forward(self, x: Tensor) -> Tensor:\n"
                       "  return torch.matmul(x, torch.ones([4, 2], dtype=6))\n"));
  run.dtype = core::Dtype::kFloat64;
  const core::Error error = failure_of(run);
  DOCTEST_CHECK(contains(error.hint(), "had cast inputs, parameters and buffers to float64"));
}

DOCTEST_TEST_CASE("running out of memory is recognised") {
  const TempDirectory dir;
  const core::Error error =
      failure_of(with_input(saved(dir,
                                  "def forward(self, x: Tensor) -> Tensor:\n"
                                  "  return torch.ones([1152921504606846]) + x.sum()\n")));
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kRunFailed);
  DOCTEST_CHECK(contains(error.what(), "aten::ones"));
  DOCTEST_CHECK(contains(error.what(), "out of memory"));
  DOCTEST_CHECK(contains(error.hint(), "smaller inputs"));
}

DOCTEST_TEST_CASE("modes reach the training attribute of every module") {
  const TempDirectory dir;
  const auto drop = make_module("Dropout",
                                {},
                                "def forward(self, x: Tensor) -> Tensor:\n"
                                "  return torch.dropout(x, 0.5, self.training)\n");
  const auto net = make_module("Net",
                               {{"drop", drop}},
                               "def forward(self, x: Tensor) -> Tensor:\n"
                               "  return self.drop.forward(x)\n");
  configs::RunSpec run = with_input(saved(dir, net));
  run.disable_dropout = false;
  Recording eval;
  record(run, eval);
  run.model.mode = configs::ModelMode::kTrain;
  Recording train;
  record(run, train);
  DOCTEST_CHECK(eval.manifest.trace.drawing_operators == 0);
  DOCTEST_CHECK(train.manifest.trace.drawing_operators == 1);
  DOCTEST_CHECK(eval.manifest.warnings.empty());
}

DOCTEST_TEST_CASE("a training flag that is a constant of the graph is warned of") {
  const TempDirectory dir;
  configs::RunSpec run = with_input(saved(dir,
                                          "def forward(self, x: Tensor) -> Tensor:\n"
                                          "  return torch.dropout(x, 0.5, True)\n"));
  Recording recording;
  record(run, recording);
  DOCTEST_CHECK(
      has_warning(recording.manifest,
                  "mode \"eval\" does not reach 1 operator whose training flag is a constant: "
                  "aten::dropout"));
}

DOCTEST_TEST_CASE("a training flag of an operator that does not run is not warned of") {
  const TempDirectory dir;
  configs::RunSpec run = with_input(saved(dir,
                                          "def forward(self, x: Tensor) -> Tensor:\n"
                                          "  if bool(torch.isnan(torch.sum(x))):\n"
                                          "    return torch.dropout(x, 0.5, True)\n"
                                          "  return torch.relu(x)\n"));
  Recording recording;
  record(run, recording);
  DOCTEST_CHECK(!has_warning(recording.manifest, "does not reach"));
}

DOCTEST_TEST_CASE("a model without modes, or one that seeds itself, is warned of") {
  const TempDirectory dir;
  torch::jit::Module net("__torch__.Frozen");
  net.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  torch.manual_seed(3)\n"
      "  return torch.add(x, torch.rand([4]))\n");
  Recording recording;
  record(with_input(saved(dir, net)), recording);
  DOCTEST_CHECK(has_warning(recording.manifest, "mode \"eval\" has no effect"));
  DOCTEST_CHECK(has_warning(recording.manifest, "aten::manual_seed at "));
}

DOCTEST_TEST_CASE("dtype casts the weights of a module that stands in the model twice once") {
  constexpr int kLayers = 8;
  std::vector<std::pair<std::string, torch::jit::Module>> children;
  for (int number = 0; number < kLayers; ++number) {
    const std::string name = std::to_string(number);
    children.emplace_back("layer" + name, make_linear("Linear" + name, number));
    children.emplace_back("again" + name, children.back().second);
  }
  const TempDirectory dir;
  configs::RunSpec run = test::run_of(saved(
      dir, make_module("Net", children, "def forward(self, x: Tensor) -> Tensor:\n  return x\n")));
  run.dtype = core::Dtype::kFloat64;
  const LoadedModel model = load_model(run, at::kCPU);
  const auto weight_of = [&](const std::string& name) {
    return model.module.attr(name).toModule().attr("weight").toTensor();
  };
  for (int number = 0; number < kLayers; ++number) {
    DOCTEST_CAPTURE(number);
    const at::Tensor weight = weight_of("layer" + std::to_string(number));
    DOCTEST_CHECK((weight.scalar_type() == at::kDouble));
    DOCTEST_CHECK(weight.min().item<double>() == number);
    DOCTEST_CHECK(weight.max().item<double>() == number);
    DOCTEST_CHECK(weight_of("again" + std::to_string(number)).is_same(weight));
  }
}

DOCTEST_TEST_CASE("dtype casts floating weights and inputs and leaves the rest") {
  const TempDirectory dir;
  auto net = make_module("Net", {{"lin", make_linear("Linear", 0.5)}}, "");
  net.register_buffer("count", at::ones({1}, at::kLong));
  net.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  return torch.add(self.lin.forward(x), self.count)\n");
  configs::RunSpec run = with_input(saved(dir, net));
  run.dtype = core::Dtype::kBFloat16;
  Recording recording;
  record(run, recording);
  for (const auto& tensor : recording.manifest.named_tensors) {
    DOCTEST_CHECK(tensor.dtype ==
                  (tensor.name == "count" ? core::Dtype::kInt64 : core::Dtype::kBFloat16));
  }
}

DOCTEST_TEST_CASE("what the configuration got wrong is a usage error with the near miss") {
  const TempDirectory dir;
  const auto model = saved(dir,
                           "def forward(self, x: Tensor) -> Tensor:\n"
                           "  return x\n"
                           "def generate(self, x: Tensor) -> Tensor:\n"
                           "  return x\n");
  configs::RunSpec run = with_input(model);
  run.model.method = "genrate";
  DOCTEST_CHECK(failure_of(run).kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(contains(failure_of(run).what(), "did you mean \"generate\"?"));

  run = with_input(model);
  run.device = "cuda:99";
  DOCTEST_CHECK(failure_of(run).kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(contains(failure_of(run).hint(), "cpu"));
  run.device = "gpu";
  DOCTEST_CHECK(failure_of(run).kind() == core::ErrorKind::kUsage);
  run.device = "meta";
  DOCTEST_CHECK(failure_of(run).kind() == core::ErrorKind::kUsage);

  test_support::write_file(dir / "m.pt", "PK not really");
  DOCTEST_CHECK(failure_of(with_input(model)).kind() == core::ErrorKind::kUsage);
}

DOCTEST_TEST_CASE("a pattern of what is recorded must match an operator or a module") {
  const TempDirectory dir;
  const auto model = saved(dir,
                           make_module("Net",
                                       {{"lin", make_linear("Linear", 0.5)}},
                                       "def forward(self, x: Tensor) -> Tensor:\n"
                                       "  return torch.neg(self.lin.forward(x))\n"));
  configs::RunSpec run = with_input(model);
  run.dump.include = {"aten::neg", "lin"};
  Recording recording;
  record(run, recording);
  DOCTEST_CHECK(recording.sink.records.size() == 2);
  run.dump.include = {"aten::neg", "lim"};
  const core::Error error = failure_of(run);
  DOCTEST_CHECK(error.kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(contains(error.what(), "/dump/include: \"lim\" matches no operator"));
}

DOCTEST_TEST_CASE("two runs of one seed are the same, another seed draws other numbers") {
  const TempDirectory dir;
  configs::RunSpec run = with_input(saved(dir,
                                          "def forward(self, x: Tensor) -> Tensor:\n"
                                          "  return torch.add(x, torch.randn([4]))\n"));
  Recording first;
  Recording second;
  Recording other;
  record(run, first);
  record(run, second);
  run.seed = 8;
  record(run, other);
  DOCTEST_CHECK(first.sink.results() == second.sink.results());
  DOCTEST_CHECK(first.sink.results() != other.sink.results());
}

DOCTEST_TEST_CASE("describe lists methods and arguments with types and defaults") {
  const TempDirectory dir;
  const auto model = saved(
      dir,
      "def forward(self, x: Tensor, scale: float = 0.5, mask: Optional[Tensor] = None) -> Tensor:\n"
      "  return x\n"
      "def other(self, n: List[int]) -> int:\n"
      "  return n[0]\n");
  const ModelDescription description = describe_model(model, "forward");
  DOCTEST_CHECK(description.methods.size() == 2);
  DOCTEST_REQUIRE(description.arguments.size() == 3);
  DOCTEST_CHECK(description.arguments[0].name == "x");
  DOCTEST_CHECK(description.arguments[0].type == "Tensor");
  DOCTEST_CHECK_FALSE(description.arguments[0].has_default);
  DOCTEST_CHECK(description.arguments[1].default_value == "0.5");
  DOCTEST_CHECK(description.arguments[2].type == "Optional[Tensor]");
  DOCTEST_CHECK(description.arguments[2].default_value == "None");
  DOCTEST_CHECK_THROWS_AS(describe_model(model, "forwards"), core::Error);
}

DOCTEST_TEST_CASE(
    "describe says what the first layer of each tensor wants, as far as weights tell") {
  const TempDirectory dir;
  torch::jit::Module embed("__torch__.Embed");
  embed.register_parameter("weight", at::rand({30, 8}), false);
  embed.define(
      "def forward(self, x: Tensor) -> Tensor:\n  return torch.embedding(self.weight, x)\n");
  torch::jit::Module model("__torch__.Model");
  model.register_module("embed", embed);
  model.register_parameter("kernel", at::rand({4, 3, 5, 5}, at::kDouble), false);
  model.register_parameter("weight", at::rand({2, 6}), false);
  model.define(
      "def forward(self, tokens: Tensor, image: Tensor, x: Tensor, mask: Tensor, "
      "batch: Tensor) -> Tensor:\n"
      "  a = self.embed.forward(tokens) + self.embed.forward(batch.view([-1, batch.size(-1)]))\n"
      "  b = torch.conv2d(image.contiguous(), self.kernel, None, [1, 1], [0, 0], [1, 1], 2)\n"
      "  c = torch.linear(torch.relu(x), self.weight, None)\n"
      "  d = torch.linear(mask.view([1, 6]), self.weight, None)\n"
      "  return a.sum() + b.sum() + c.sum() + d.sum()\n");
  const auto path = dir.path() / "model.pt";
  model.save(path.string());
  const ModelDescription description = describe_model(path, "forward");
  using Shape = std::vector<std::int64_t>;
  DOCTEST_CHECK(description.dtype == "float32");  // they have two: nothing is known of the others
  const auto& arguments = description.arguments;
  DOCTEST_REQUIRE(arguments.size() == 5);
  DOCTEST_CHECK(arguments[0].layer == "embed.weight");
  DOCTEST_CHECK(arguments[0].dtype == "int64");
  DOCTEST_CHECK(arguments[0].rows == 30);
  DOCTEST_CHECK(arguments[0].shape == Shape{-1, -1});
  DOCTEST_CHECK(arguments[1].layer == "kernel");
  DOCTEST_CHECK(arguments[1].dtype == "float64");
  DOCTEST_CHECK(arguments[1].shape == Shape{1, 6, -1, -1});
  DOCTEST_CHECK(arguments[2].layer == "weight");
  DOCTEST_CHECK(arguments[2].shape == Shape{1, 6});
  DOCTEST_CHECK(arguments[3].layer.empty());  // what is reshaped first may have any shape
  DOCTEST_CHECK(arguments[4].layer == "embed.weight");
  DOCTEST_CHECK(arguments[4].dtype == "int64");
  DOCTEST_CHECK(arguments[4].rows == 30);
}

}  // namespace
}  // namespace repro_check::torchscript
