// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "core/trace/run_manifest.h"

namespace repro_check::core {
namespace {

TEST_CASE("names are valid, sorted and there once") {
  const auto variables = known_variables();
  REQUIRE(variables.size() > 90);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::string_view name = variables[i];
    CAPTURE(name);
    CHECK_FALSE(name.empty());
    CHECK(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
          std::string_view::npos);
    if (i > 0) CHECK(variables[i - 1] < name);
  }
}

TEST_CASE("the ones that change numbers most often are there") {
  for (const std::string_view name : {"ATEN_CPU_CAPABILITY",
                                      "CUBLAS_WORKSPACE_CONFIG",
                                      "HCCL_DETERMINISTIC",
                                      "MKL_CBWR",
                                      "MKL_NUM_THREADS",
                                      "NVIDIA_TF32_OVERRIDE",
                                      "OMP_NUM_THREADS",
                                      "ONEDNN_MAX_CPU_ISA",
                                      "PYTHONHASHSEED"}) {
    CAPTURE(name);
    CHECK(std::ranges::count(known_variables(), name) == 1);
  }
}

}  // namespace
}  // namespace repro_check::core
