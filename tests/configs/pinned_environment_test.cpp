// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "configs/spec/run_config.h"
#include "core/trace/run_manifest.h"

namespace repro_check::configs {
namespace {

using Environment = std::map<std::string, std::optional<std::string>>;

TEST_CASE("without anything asked only the dynamic teams are fixed") {
  CHECK(pinned_environment({}) ==
        Environment{{"MKL_DYNAMIC", "FALSE"}, {"OMP_DYNAMIC", "FALSE"}, {"PYTHONHASHSEED", "0"}});
}

TEST_CASE("the hash seed of Python follows the seed, whatever determinism is") {
  RunSpec run;
  run.seed = 4'294'967'295;
  CHECK(pinned_environment(run).at("PYTHONHASHSEED") == "4294967295");
  run.determinism = DeterminismMode::kError;
  CHECK(pinned_environment(run).at("PYTHONHASHSEED") == "4294967295");
}

TEST_CASE("threads set every library's count and take away what would undercut it") {
  RunSpec run;
  run.threads = 3;
  CHECK(pinned_environment(run) == Environment{{"GOTO_NUM_THREADS", std::nullopt},
                                               {"MKL_DOMAIN_NUM_THREADS", std::nullopt},
                                               {"MKL_DYNAMIC", "FALSE"},
                                               {"MKL_NUM_THREADS", "3"},
                                               {"OMP_DYNAMIC", "FALSE"},
                                               {"OMP_NUM_THREADS", "3"},
                                               {"OMP_THREAD_LIMIT", std::nullopt},
                                               {"OPENBLAS_NUM_THREADS", "3"},
                                               {"PYTHONHASHSEED", "0"}});
}

TEST_CASE("determinism pins what no setter reaches, the same under warn and error") {
  RunSpec run;
  run.determinism = DeterminismMode::kWarn;
  const Environment warn = pinned_environment(run);
  CHECK(warn.at("CUBLAS_WORKSPACE_CONFIG") == ":4096:8");
  CHECK(warn.at("NVIDIA_TF32_OVERRIDE") == "0");
  CHECK(warn.at("NCCL_ALGO") == "Ring");
  CHECK(warn.at("NCCL_NVLS_ENABLE") == "0");
  CHECK(warn.at("NCCL_COLLNET_ENABLE") == "0");
  CHECK(warn.count("NCCL_PROTO") == 0);
  CHECK(warn.at("HCCL_DETERMINISTIC") == "true");
  CHECK(warn.at("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC") == "1");
  CHECK(warn.at("PYTORCH_TUNABLEOP_ENABLED") == "0");
  CHECK(warn.at("CUBLAS_EMULATE_SINGLE_PRECISION") == std::nullopt);
  run.determinism = DeterminismMode::kError;
  CHECK(pinned_environment(run) == warn);
}

TEST_CASE("what the configuration says wins, taking away included") {
  RunSpec run;
  run.threads = 2;
  run.determinism = DeterminismMode::kError;
  run.env = {{"CUBLAS_WORKSPACE_CONFIG", ":16:8"},
             {"OMP_THREAD_LIMIT", "1"},
             {"PYTHONHASHSEED", std::nullopt},
             {"MINE", "x"}};
  const Environment environment = pinned_environment(run);
  CHECK(environment.at("CUBLAS_WORKSPACE_CONFIG") == ":16:8");
  CHECK(environment.at("OMP_THREAD_LIMIT") == "1");
  CHECK(environment.at("PYTHONHASHSEED") == std::nullopt);
  CHECK(environment.at("MINE") == "x");
}

TEST_CASE("every variable pinned is one that the manifest records") {
  RunSpec run;
  run.threads = 1;
  run.determinism = DeterminismMode::kError;
  for (const auto& [name, value] : pinned_environment(run)) {
    CAPTURE(name);
    CHECK(std::ranges::count(core::known_variables(), std::string_view(name)) == 1);
  }
}

}  // namespace
}  // namespace repro_check::configs
