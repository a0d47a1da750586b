// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/determinism.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/trace/run_manifest.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

std::map<std::string, std::string> as_found() {
  std::map<std::string, std::string> values;
  for (const core::EnvironmentFact& fact : read_settings()) values[fact.name] = fact.value;
  return values;
}

std::string used(const DeterminismPin& pin, const std::string& name) {
  for (const core::Setting& setting : pin.settings()) {
    if (setting.name == name) return setting.used;
  }
  return "absent";
}

DOCTEST_TEST_CASE("every setting has a name of its own and can be read") {
  std::set<std::string> names;
  for (const core::EnvironmentFact& fact : read_settings()) {
    DOCTEST_CHECK_MESSAGE(names.insert(fact.name).second, fact.name);
    DOCTEST_CHECK_MESSAGE(
        fact.value.find("unreadable") == std::string::npos, fact.name, ": ", fact.value);
    DOCTEST_CHECK(!fact.value.empty());
  }
  for (const char* name : {"deterministic_algorithms",
                           "cudnn.benchmark",
                           "tf32.cublas",
                           "tf32.cudnn",
                           "float32_matmul_precision",
                           "cublas.fp16_reduction",
                           "sdp.math",
                           "mkldnn.enabled",
                           "quantized.engine",
                           "threads.intra_op",
                           "threads.inter_op",
                           "autocast.cpu",
                           "grad_mode",
                           "default_dtype",
                           "flush_denormal",
                           "linalg.preferred_backend"}) {
    DOCTEST_CHECK_MESSAGE(names.count(name) == 1, name);
  }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
  for (const char* name : {"deterministic_fill_uninitialized_memory",
                           "cudnn.depthwise_kernel",
                           "cublas.bf16_reduction",
                           "sdp.priority_order",
                           "sdp.fa3",
                           "nnpack.enabled",
                           "blas.preferred_backend",
                           "blas.default_backend",
                           "float32_precision.cuda.conv",
                           "miopen.immediate",
                           "cublas.sm_carveout",
                           "mkldnn.deterministic",
                           "cpu.fp16_reduction"}) {
    DOCTEST_CHECK_MESSAGE(names.count(name) == 1, name);
  }
  DOCTEST_CHECK(as_found().at("cublas.fp16_reduction") == "on");
  DOCTEST_CHECK(as_found().at("sdp.priority_order").find("flash,efficient,math") == 0);
#endif
}

DOCTEST_TEST_CASE("determinism mode pins everything the reference names, and puts it back") {
  const auto before = as_found();
  {
    PinRequest request;
    request.determinism = core::DeterminismMode::kError;
    const DeterminismPin pin(request);
    DOCTEST_CHECK(at::globalContext().deterministicAlgorithms());
    DOCTEST_CHECK_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
    DOCTEST_CHECK(used(pin, "deterministic_algorithms") == "error");
    DOCTEST_CHECK(used(pin, "cudnn.deterministic") == "on");
    for (const char* name : {"cudnn.benchmark",
                             "tf32.cublas",
                             "tf32.cudnn",
                             "cublas.fp16_reduction",
                             "autocast.cpu",
                             "flush_denormal"}) {
      DOCTEST_CHECK_MESSAGE(used(pin, name) == "off", name);
    }
    for (const char* name : {"cublas.bf16_reduction",
                             "nnpack.enabled",
                             "native_aot.allow",
                             "cublas.fp16_accumulation"}) {
      const std::string value = used(pin, name);
      DOCTEST_CHECK_MESSAGE((value == "off" || value == "absent"), name);
    }
    const auto settings = pin.settings();
    const auto tf32 = std::find_if(settings.begin(), settings.end(), [](const auto& setting) {
      return setting.name == "tf32.cudnn";
    });
    DOCTEST_CHECK(tf32->found == "on");
  }
  DOCTEST_CHECK(as_found() == before);
  {
    PinRequest request;
    request.determinism = core::DeterminismMode::kWarn;
    const DeterminismPin pin(request);
    DOCTEST_CHECK(at::globalContext().deterministicAlgorithmsWarnOnly());
  }
  DOCTEST_CHECK(as_found() == before);
}

DOCTEST_TEST_CASE("without determinism mode only the safe ones are pinned") {
  const auto before = as_found();
  at::autocast::set_autocast_cache_enabled(true);
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_enabled(at::kCPU, true);
#else
  at::autocast::set_cpu_enabled(true);
#endif
  {
    const DeterminismPin pin(PinRequest{});
    DOCTEST_CHECK(used(pin, "autocast.cpu") == "off");
    DOCTEST_CHECK(used(pin, "tf32.cudnn") == "on");
    DOCTEST_CHECK(used(pin, "deterministic_algorithms") == "off");
    DOCTEST_CHECK(used(pin, "grad_mode") == "off");
  }
  DOCTEST_CHECK(as_found().at("autocast.cpu") == "on");
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_enabled(at::kCPU, false);
#else
  at::autocast::set_cpu_enabled(false);
#endif
  DOCTEST_CHECK(as_found() == before);
}

/// Another value than the one there, as a configuration would write it; empty = leave it.
std::string other_value(const std::string& name, const std::string& value) {
  static const std::map<std::string, std::string> others = {
      {"deterministic_algorithms", "warn"},
      {"cudnn.benchmark_limit", "3"},
      {"float32_matmul_precision", "high"},
      {"threads.intra_op", "1"},
      {"default_dtype", "float64"},
      {"sdp.priority_order", "math,flash,efficient"},
      {"cublas.sm_carveout", "8"},
      {"cudnn.depthwise_kernel", "native"}};
  const auto found = others.find(name);
  if (name == "sdp.priority_order") return {};  // its length differs between releases
  if (found != others.end()) return found->second == value ? "" : found->second;
  // Not writable, not changeable on a CPU, or the interface that must not be mixed with the old
  // one.
  for (const char* left : {"threads.inter_op",
                           "inference_mode",
                           "xnnpack",
                           "blas.",
                           "linalg.",
                           "rocm.",
                           "quantized.",
                           "float32_precision",
                           "tf32.onednn",
                           "cudnn.depthwise_kernel",
                           "autocast.npu",
                           "autocast.xpu",
                           "native_aot",
                           "cpu.fp16_reduction"}) {
    if (name.rfind(left, 0) == 0) return {};
  }
  if (value == "on") return "off";
  return value == "off" ? "on" : "";
}

DOCTEST_TEST_CASE("each setting can be set by name, takes effect, and is restored") {
  const auto before = as_found();
  std::size_t changed = 0;
  for (const auto& [name, value] : before) {
    const std::string other = other_value(name, value);
    if (other.empty()) continue;
    DOCTEST_CAPTURE(name);
    ++changed;
    {
      PinRequest request;
      request.settings[name] = other;
      request.grad = core::GradMode::kEnabled;
      const DeterminismPin pin(request);
      DOCTEST_CHECK(used(pin, name) == other);
      DOCTEST_CHECK(as_found().at(name) == other);
    }
    DOCTEST_CHECK(as_found().at(name) == value);
  }
  DOCTEST_CHECK(changed >= 15);
  DOCTEST_CHECK(as_found() == before);
}

DOCTEST_TEST_CASE("engines and the order of attention kernels go by name") {
  const auto before = as_found();
  PinRequest request;
  request.settings["quantized.engine"] = before.at("quantized.engine");
  request.settings["linalg.preferred_backend"] = before.at("linalg.preferred_backend");
  if (before.count("sdp.priority_order") > 0) {
    request.settings["sdp.priority_order"] = before.at("sdp.priority_order");
  }
  const DeterminismPin pin(request);
  DOCTEST_CHECK(used(pin, "quantized.engine") == before.at("quantized.engine"));
}

DOCTEST_TEST_CASE("flush-denormal reaches every thread of the team") {
  const at::Tensor tiny = at::full({1 << 20}, 1e-40F);
  DOCTEST_CHECK(tiny.mul(1.0F).count_nonzero().item<std::int64_t>() == tiny.numel());
  {
    PinRequest request;
    request.settings["flush_denormal"] = "on";
    const DeterminismPin pin(request);
    DOCTEST_CHECK(tiny.mul(1.0F).count_nonzero().item<std::int64_t>() == 0);
  }
  DOCTEST_CHECK(tiny.mul(1.0F).count_nonzero().item<std::int64_t>() == tiny.numel());
}

DOCTEST_TEST_CASE("grad modes are what was asked for, and end with the pin") {
  for (const core::GradMode mode :
       {core::GradMode::kDisabled, core::GradMode::kEnabled, core::GradMode::kInference}) {
    PinRequest request;
    request.grad = mode;
    {
      const DeterminismPin pin(request);
      DOCTEST_CHECK(at::GradMode::is_enabled() == (mode == core::GradMode::kEnabled));
      DOCTEST_CHECK(c10::InferenceMode::is_enabled() == (mode == core::GradMode::kInference));
      DOCTEST_CHECK(at::ones({1}).is_inference() == (mode == core::GradMode::kInference));
    }
    DOCTEST_CHECK(at::GradMode::is_enabled());
    DOCTEST_CHECK_FALSE(c10::InferenceMode::is_enabled());
  }
}

core::Error error_of(const PinRequest& request) {
  try {
    const DeterminismPin pin(request);
  } catch (const core::Error& error) {
    return error;
  }
  return core::Error(core::ErrorKind::kInternal, "nothing was thrown");
}

DOCTEST_TEST_CASE(
    "a setting nobody has, and a value it does not take, are refused with the way out") {
  const auto before = as_found();
  PinRequest misspelt;
  misspelt.determinism = core::DeterminismMode::kError;
  misspelt.settings["sdp.flahs"] = "on";
  const core::Error unknown = error_of(misspelt);
  DOCTEST_CHECK(unknown.kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(unknown.hint() == "did you mean sdp.flash?");
  DOCTEST_CHECK(as_found() == before);

  PinRequest wrong;
  wrong.settings["sdp.flash"] = "maybe";
  DOCTEST_CHECK(error_of(wrong).kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(error_of(wrong).hint() == "it takes on, off");

  PinRequest fixed;
  fixed.settings["inference_mode"] = "on";
  DOCTEST_CHECK(error_of(fixed).kind() == core::ErrorKind::kUsage);

  PinRequest threads;
  threads.settings["threads.intra_op"] = "0";
  DOCTEST_CHECK(error_of(threads).kind() == core::ErrorKind::kUsage);
  DOCTEST_CHECK(as_found() == before);
}

DOCTEST_TEST_CASE("every known variable is among the settings") {
  const DeterminismPin pin(PinRequest{});
  DOCTEST_CHECK(!core::known_variables().empty());
  for (const std::string_view each : core::known_variables()) {
    const std::string name(each);
    const char* value = std::getenv(name.c_str());
    DOCTEST_CHECK(used(pin, "env." + name) == (value != nullptr ? value : "unset"));
  }
}

DOCTEST_TEST_CASE("generators are seeded, and a seed LibTorch would fold is refused") {
  std::vector<core::Setting> settings;
  seed_generators(123, settings);
  DOCTEST_REQUIRE(!settings.empty());
  DOCTEST_CHECK(settings[0].name == "generator.cpu");
  DOCTEST_CHECK(settings[0].used == "123");
  const at::Tensor first = at::rand({4});
  seed_generators(123, settings);
  DOCTEST_CHECK(at::equal(first, at::rand({4})));
  DOCTEST_CHECK_THROWS_AS(seed_generators(std::uint64_t{1} << 32U, settings), core::Error);
}

DOCTEST_TEST_CASE("the environment is described, and agrees with the variables") {
  std::map<std::string, std::string> facts;
  for (const core::EnvironmentFact& fact : read_environment()) facts[fact.name] = fact.value;
  DOCTEST_CHECK(facts.at("libtorch.version") == TORCH_VERSION);
  DOCTEST_CHECK(facts.at("openmp.team") == std::to_string(at::get_num_threads()));
  DOCTEST_CHECK(facts.at("cpu.capability") != "unknown");
  DOCTEST_CHECK(facts.at("cpu.model") != "unknown");
  DOCTEST_CHECK(facts.at("cpu.mxcsr").find("0x") == 0);
  check_variables();
}

DOCTEST_TEST_CASE("a variable set after LibTorch was loaded is a disagreement") {
  const int wrong = at::get_num_threads() + 3;
  const char* found = std::getenv("OMP_NUM_THREADS");
  const std::string kept = found != nullptr ? found : "";
  if (std::getenv("MKL_NUM_THREADS") != nullptr) return;
  setenv("OMP_NUM_THREADS", std::to_string(wrong).c_str(), 1);
  bool refused = false;
  try {
    check_variables();
  } catch (const core::Error& error) {
    refused = error.kind() == core::ErrorKind::kRunFailed &&
              std::string(error.what()).find("OMP_NUM_THREADS=" + std::to_string(wrong)) == 0;
  }
  DOCTEST_CHECK(refused);
  {
    // A count the configuration set is no disagreement.
    PinRequest request;
    request.threads = at::get_num_threads();
    const DeterminismPin pin(request);
    check_variables();
  }
  if (found != nullptr) {
    setenv("OMP_NUM_THREADS", kept.c_str(), 1);
  } else {
    unsetenv("OMP_NUM_THREADS");
  }
}

DOCTEST_TEST_CASE("warnings are collected, each once") {
  WarningCollector collector;
  for (int i = 0; i < 3; ++i) {
    TORCH_WARN("mind the gap");
    TORCH_WARN_ONCE("only once");
  }
  const std::vector<std::string> texts = collector.warnings();
  DOCTEST_REQUIRE(texts.size() == 2);
  DOCTEST_CHECK(texts[0].find("mind the gap") != std::string::npos);
}

DOCTEST_TEST_CASE("determinism warn gives LibTorch's refusals as warnings") {
  PinRequest request;
  request.determinism = core::DeterminismMode::kWarn;
  const DeterminismPin pin(request);
  WarningCollector collector;
  const at::Tensor x = at::ones({1, 1, 2, 2});
  const at::Tensor indices = at::arange(4).reshape({1, 1, 2, 2});
  at::max_unpool2d(x, indices, {4, 4});
  DOCTEST_REQUIRE(collector.warnings().size() == 1);
  DOCTEST_CHECK(collector.warnings()[0].find("deterministic") != std::string::npos);
}

/// Where every operator of a model of one line stands.
class OnePlace final : public SiteProvider {
 public:
  std::shared_ptr<const core::CallSite> current_site() override {
    return std::make_shared<core::CallSite>(
        core::CallSite{"pool", "Pool", {{"model.py", 12, "forward"}}});
  }
};

DOCTEST_TEST_CASE("a warning names the recorded call that it comes from, once for each place") {
  PinRequest request;
  request.determinism = core::DeterminismMode::kWarn;
  const DeterminismPin pin(request);
  const at::Tensor x = at::ones({1, 1, 2, 2});
  const at::Tensor indices = at::arange(4).reshape({1, 1, 2, 2});
  for (const core::DumpDepth depth : {core::DumpDepth::kTop, core::DumpDepth::kAll}) {
    WarningCollector collector;
    MemorySink sink;
    OnePlace site;
    Capture capture(options_for(depth), sink, &site);
    {
      const Capture::Scope scope(capture);
      for (int i = 0; i < 3; ++i) at::max_unpool2d(x, indices, {4, 4});
    }
    DOCTEST_REQUIRE(collector.warnings().size() == 1);
    DOCTEST_CHECK(
        collector.warnings()[0].find("aten::max_unpool2d (pool, model.py:12): max_unpool") == 0);
  }
}

}  // namespace
}  // namespace repro_check::capture
