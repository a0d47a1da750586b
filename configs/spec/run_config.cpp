// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/run_config.h"

#include <algorithm>

#include "core/text/text.h"

namespace repro_check::configs {
namespace {

bool uses(const CompareSpec& spec, PolicyKind kind) noexcept {
  const auto is_it = [kind](const Rule& rule) { return rule.policy.kind == kind; };
  return spec.policy.kind == kind || std::ranges::any_of(spec.rules, is_it);
}

// Each `NAME=value`, or the name of a variable that is taken away.

/// A team must not shrink behind the program's back.
constexpr std::string_view kAlways = "MKL_DYNAMIC=FALSE OMP_DYNAMIC=FALSE";

/// These would override the count asked for, silently or for a part of the libraries.
constexpr std::string_view kWithThreads =
    "GOTO_NUM_THREADS MKL_DOMAIN_NUM_THREADS OMP_THREAD_LIMIT";

/// What determinism needs and no setter of LibTorch reaches, on every vendor's device: one
/// configuration gives the same environment everywhere.
constexpr std::string_view kUnderDeterminism =
    "ATB_LLM_LCOC_ENABLE=0 ATB_MATMUL_SHUFFLE_K_ENABLE=0 CAUSAL_CONV1D_DETERMINISTIC=1 "
    "CLOSE_MATMUL_K_SHIFT=1 CUBLAS_EMULATE_DOUBLE_PRECISION CUBLAS_EMULATE_SINGLE_PRECISION "
    "CUBLAS_EMULATION_STRATEGY CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT "
    "CUBLAS_WORKSPACE_CONFIG=:4096:8 DNNL_DEFAULT_FPMATH_MODE HCCL_DETERMINISTIC=true "
    "HIPBLASLT_ALLOW_TF32 LCCL_DETERMINISTIC=1 MAMBA_DETERMINISTIC=1 "
    "MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC=1 MKLDNN_DEFAULT_FPMATH_MODE NCCL_ALGO=Ring "
    "NCCL_COLLNET_ENABLE=0 NCCL_NVLS_ENABLE=0 NVIDIA_TF32_OVERRIDE=0 "
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 ONEDNN_DEFAULT_FPMATH_MODE PYTORCH_TUNABLEOP_ENABLED=0 "
    "PYTORCH_TUNABLEOP_FILENAME PYTORCH_TUNABLEOP_TUNING=0 ROCBLAS_DEFAULT_ATOMICS_MODE=0 "
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE";

using Environment = std::map<std::string, std::optional<std::string>>;

void pin(std::string_view pins, Environment& environment) {
  for (const std::string_view each : core::split(pins, ' ')) {
    const std::size_t end = each.find('=');
    std::optional<std::string>& value = environment[std::string(each.substr(0, end))];
    value.reset();
    if (end != std::string_view::npos) value = each.substr(end + 1);
  }
}

}  // namespace

// Out of line: InputSpec is incomplete where it is declared.
bool ContainerInput::operator==(const ContainerInput& other) const {
  return kind == other.kind && items == other.items;
}

bool uses_noise(const CompareSpec& spec) noexcept { return uses(spec, PolicyKind::kNoise); }

bool uses_fp64(const CompareSpec& spec) noexcept { return uses(spec, PolicyKind::kFp64); }

void relax(CompareSpec& spec) noexcept {
  spec.promote = true;
  spec.strides = AttributeRule::kNote;
  spec.device = AttributeRule::kNote;
}

Environment pinned_environment(const RunSpec& run) {
  Environment environment;
  pin(kAlways, environment);
  if (run.seed) environment["PYTHONHASHSEED"] = std::to_string(*run.seed);
  if (run.threads) {
    pin(kWithThreads, environment);
    for (const char* name : {"MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
      environment[name] = std::to_string(*run.threads);
    }
  }
  if (run.determinism != DeterminismMode::kOff) pin(kUnderDeterminism, environment);
  if (run.compile == core::CompileRung::kOff) environment["TORCHDYNAMO_DISABLE"] = "1";
  for (const auto& [name, value] : run.env) environment[name] = value;
  return environment;
}

}  // namespace repro_check::configs
