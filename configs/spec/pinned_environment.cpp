// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/pinned_environment.h"

#include <array>
#include <string_view>

namespace repro_check::configs {
namespace {

struct Pin {
  const char* name;
  const char* value;  ///< null = taken away
};

/// A team must not shrink behind the program's back.
constexpr std::array<Pin, 2> kAlways{{
    {"MKL_DYNAMIC", "FALSE"},
    {"OMP_DYNAMIC", "FALSE"},
}};

/// These would override the count asked for, silently or for a part of the libraries.
constexpr std::array<Pin, 3> kWithThreads{{
    {"GOTO_NUM_THREADS", nullptr},
    {"MKL_DOMAIN_NUM_THREADS", nullptr},
    {"OMP_THREAD_LIMIT", nullptr},
}};

/// What determinism needs and no setter of LibTorch reaches, on every vendor's device: one
/// configuration gives the same environment everywhere.
constexpr std::array<Pin, 27> kUnderDeterminism{{
    {"ATB_LLM_LCOC_ENABLE", "0"},
    {"ATB_MATMUL_SHUFFLE_K_ENABLE", "0"},
    {"CAUSAL_CONV1D_DETERMINISTIC", "1"},
    {"CLOSE_MATMUL_K_SHIFT", "1"},
    {"CUBLAS_EMULATE_DOUBLE_PRECISION", nullptr},
    {"CUBLAS_EMULATE_SINGLE_PRECISION", nullptr},
    {"CUBLAS_EMULATION_STRATEGY", nullptr},
    {"CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT", nullptr},
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
    {"DNNL_DEFAULT_FPMATH_MODE", nullptr},
    {"HCCL_DETERMINISTIC", "true"},
    {"HIPBLASLT_ALLOW_TF32", nullptr},
    {"LCCL_DETERMINISTIC", "1"},
    {"MAMBA_DETERMINISTIC", "1"},
    {"MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", "1"},
    {"MKLDNN_DEFAULT_FPMATH_MODE", nullptr},
    {"NCCL_ALGO", "Ring"},
    {"NCCL_COLLNET_ENABLE", "0"},
    {"NCCL_NVLS_ENABLE", "0"},
    {"NVIDIA_TF32_OVERRIDE", "0"},
    {"NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0"},
    {"ONEDNN_DEFAULT_FPMATH_MODE", nullptr},
    {"PYTORCH_TUNABLEOP_ENABLED", "0"},
    {"PYTORCH_TUNABLEOP_FILENAME", nullptr},
    {"PYTORCH_TUNABLEOP_TUNING", "0"},
    {"ROCBLAS_DEFAULT_ATOMICS_MODE", "0"},
    {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", nullptr},
}};

using Environment = std::map<std::string, std::optional<std::string>>;

template <std::size_t N>
void pin(const std::array<Pin, N>& pins, Environment& environment) {
  for (const Pin& entry : pins) {
    environment[entry.name] =
        entry.value == nullptr ? std::nullopt : std::optional<std::string>(entry.value);
  }
}

}  // namespace

Environment pinned_environment(const RunSpec& run) {
  Environment environment;
  pin(kAlways, environment);
  environment["PYTHONHASHSEED"] = std::to_string(run.seed);
  if (run.threads) {
    pin(kWithThreads, environment);
    for (const char* name : {"MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
      environment[name] = std::to_string(*run.threads);
    }
  }
  if (run.determinism != DeterminismMode::kOff) pin(kUnderDeterminism, environment);
  for (const auto& [name, value] : run.env) environment[name] = value;
  return environment;
}

}  // namespace repro_check::configs
