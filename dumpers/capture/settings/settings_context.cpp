// SPDX-License-Identifier: Apache-2.0
// Which settings exist differs from release to release. Each is asked for with `requires` on a
// template parameter, so that one source serves all of them.
#include <ATen/Context.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <sstream>
#include <utility>

#include "dumpers/capture/settings/enum_text.h"
#include "dumpers/capture/settings/setting_table.h"
#include "dumpers/capture/torch/torch_compat.h"

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): names that may not exist cannot be passed
#define REPRO_CHECK_TOGGLE(rows, name, getter, setter)                      \
  if constexpr (requires(C & c) {                                           \
                  c.getter();                                               \
                  c.setter(true);                                           \
                }) {                                                        \
    (rows).push_back(toggle_row(                                            \
        name,                                                               \
        [] { return static_cast<C&>(at::globalContext()).getter(); },       \
        [](bool on) { static_cast<C&>(at::globalContext()).setter(on); })); \
  }

namespace repro_check::capture {
namespace {

int parse_integer(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) throw UnknownSettingValue{};
  return number;
}

template <class C>
void add_deterministic_rows(SettingRows& rows) {
  rows.push_back({"deterministic_algorithms",
                  []() -> std::string {
                    if (!context<C>().deterministicAlgorithms()) return "off";
                    return context<C>().deterministicAlgorithmsWarnOnly() ? "warn" : "error";
                  },
                  [](const std::string& text) {
                    if (text != "off" && text != "warn" && text != "error") {
                      throw UnknownSettingValue{};
                    }
                    context<C>().setDeterministicAlgorithms(text != "off", text == "warn");
                  },
                  "off, warn, error"});
  REPRO_CHECK_TOGGLE(rows,
                     "deterministic_fill_uninitialized_memory",
                     deterministicFillUninitializedMemory,
                     setDeterministicFillUninitializedMemory)
}

template <class C>
void add_cudnn_rows(SettingRows& rows) {
  REPRO_CHECK_TOGGLE(rows, "cudnn.enabled", userEnabledCuDNN, setUserEnabledCuDNN)
  REPRO_CHECK_TOGGLE(rows, "cudnn.deterministic", deterministicCuDNN, setDeterministicCuDNN)
  REPRO_CHECK_TOGGLE(rows, "cudnn.benchmark", benchmarkCuDNN, setBenchmarkCuDNN)
  rows.push_back(
      {"cudnn.benchmark_limit",
       [] { return std::to_string(context<C>().benchmarkLimitCuDNN()); },
       [](const std::string& text) { context<C>().setBenchmarkLimitCuDNN(parse_integer(text)); },
       "a whole number"});
#if REPRO_CHECK_TORCH_AT_LEAST(2, 13)
  rows.push_back({"cudnn.depthwise_kernel",
                  [] { return at::cudnn_depthwise2str(context<C>().cudnnDepthwiseKernel()); },
                  [](const std::string& text) {
                    context<C>().setCuDNNDepthwiseKernel(at::str2cudnn_depthwise(text));
                  },
                  "auto, cudnn, native"});
#endif
  REPRO_CHECK_TOGGLE(rows, "miopen.immediate", immediateMiopen, setImmediateMiopen)
}

template <class C>
void add_attention_rows(SettingRows& rows) {
  REPRO_CHECK_TOGGLE(rows, "sdp.flash", userEnabledFlashSDP, setSDPUseFlash)
  REPRO_CHECK_TOGGLE(rows, "sdp.math", userEnabledMathSDP, setSDPUseMath)
  REPRO_CHECK_TOGGLE(rows, "sdp.mem_efficient", userEnabledMemEfficientSDP, setSDPUseMemEfficient)
  REPRO_CHECK_TOGGLE(rows, "sdp.cudnn", userEnabledCuDNNSDP, setSDPUseCuDNN)
  REPRO_CHECK_TOGGLE(rows, "sdp.overrideable", userEnabledOverrideableSDP, setSDPUseOverrideable)
  REPRO_CHECK_TOGGLE(rows, "sdp.fa3", userEnabledFA3SDP, setSDPUseFA3)
  REPRO_CHECK_TOGGLE(rows, "sdp.fa4", userEnabledFA4SDP, setSDPUseFA4)
  REPRO_CHECK_TOGGLE(
      rows, "sdp.math_reduction", allowFP16BF16ReductionMathSDP, setAllowFP16BF16ReductionMathSDP)
}

/// SDPBackend has had these numbers since the order could be set.
constexpr std::array<const char*, 5> kAttentionBackends = {
    "math", "flash", "efficient", "cudnn", "overrideable"};

std::string attention_name(std::int64_t number) {
  const auto index = static_cast<std::size_t>(number);
  return index < kAttentionBackends.size() ? kAttentionBackends[index] : std::to_string(number);
}

std::int64_t attention_number(const std::string& name) {
  for (std::size_t i = 0; i < kAttentionBackends.size(); ++i) {
    if (name == kAttentionBackends[i]) return static_cast<std::int64_t>(i);
  }
  return parse_integer(name);
}

template <class C>
void add_attention_order(SettingRows& rows) {
  if constexpr (requires(C & c) { c.sDPPriorityOrder(); }) {
    rows.push_back({"sdp.priority_order",
                    [] {
                      std::string text;
                      for (const auto backend : context<C>().sDPPriorityOrder()) {
                        text += text.empty() ? "" : ",";
                        text += attention_name(static_cast<std::int64_t>(backend));
                      }
                      return text;
                    },
                    [](const std::string& text) {
                      std::vector<std::int64_t> order;
                      std::istringstream names(text);
                      for (std::string name; std::getline(names, name, ',');) {
                        order.push_back(attention_number(name));
                      }
                      context<C>().setSDPPriorityOrder(order);
                    },
                    "math, flash, efficient, cudnn, overrideable, in order, with commas between"});
  }
}

template <class C>
void add_backend_rows(SettingRows& rows) {
  REPRO_CHECK_TOGGLE(rows, "mkldnn.enabled", userEnabledMkldnn, setUserEnabledMkldnn)
  REPRO_CHECK_TOGGLE(rows, "mkldnn.deterministic", deterministicMkldnn, setDeterministicMkldnn)
  REPRO_CHECK_TOGGLE(rows, "nnpack.enabled", userEnabledNNPACK, setUserEnabledNNPACK)
  rows.push_back({"xnnpack.available", [] { return on_off(C::isXNNPACKAvailable()); }, {}, {}});
  rows.push_back({"quantized.engine",
                  [] {
                    std::string text = c10::toString(context<C>().qEngine());
                    return text;
                  },
                  [](const std::string& text) {
                    for (const c10::QEngine engine : C::supportedQEngines()) {
                      if (c10::toString(engine) == text) return context<C>().setQEngine(engine);
                    }
                    throw UnknownSettingValue{};
                  },
                  "an engine this LibTorch supports, as it is spelt there"});
  using Linalg = at::LinalgBackend;
  rows.push_back({"linalg.preferred_backend",
                  [] { return enum_text(context<C>().linalgPreferredBackend()); },
                  [](const std::string& text) {
                    context<C>().setLinalgPreferredBackend(enum_from_text<Linalg>(text));
                  },
                  enum_texts<Linalg>()});
}

template <class C>
void add_blas_rows(SettingRows& rows) {
  if constexpr (requires(C & c) { c.blasPreferredBackend(); }) {
    using Blas = decltype(std::declval<C&>().blasPreferredBackend());
    rows.push_back({"blas.preferred_backend",
                    [] { return enum_text(context<C>().blasPreferredBackend()); },
                    [](const std::string& text) {
                      context<C>().setBlasPreferredBackend(enum_from_text<Blas>(text));
                    },
                    enum_texts<Blas>()});
  }
  if constexpr (requires(C & c) { c.blasDefaultBackend(); }) {
    rows.push_back({"blas.default_backend",
                    [] { return enum_text(context<C>().blasDefaultBackend()); },
                    {},
                    {}});
  }
  if constexpr (requires(C & c) { c.getROCmFAPreferredBackend(); }) {
    using Attention = decltype(std::declval<C&>().getROCmFAPreferredBackend());
    rows.push_back({"rocm.fa_preferred_backend",
                    [] { return enum_text(context<C>().getROCmFAPreferredBackend()); },
                    [](const std::string& text) {
                      context<C>().setROCmFAPreferredBackend(enum_from_text<Attention>(text));
                    },
                    enum_texts<Attention>()});
  }
  REPRO_CHECK_TOGGLE(
      rows, "cublaslt.grouped_gemm", preferCublasltGroupedGemm, setPreferCublasltGroupedGemm)
  REPRO_CHECK_TOGGLE(rows, "native_aot.allow", allowNativeAot, setAllowNativeAot)
  REPRO_CHECK_TOGGLE(rows,
                     "native_aot.mask_unconditional",
                     maskUnconditionalNativeAot,
                     setMaskUnconditionalNativeAot)
  if constexpr (requires(C & c) { c._SMCarveout_EXPERIMENTAL(); }) {
    rows.push_back({"cublas.sm_carveout",
                    []() -> std::string {
                      const auto carveout = context<C>()._SMCarveout_EXPERIMENTAL();
                      return carveout.has_value() ? std::to_string(*carveout) : "none";
                    },
                    [](const std::string& text) {
                      if (text == "none") return context<C>()._setSMCarveout_EXPERIMENTAL({});
                      context<C>()._setSMCarveout_EXPERIMENTAL(parse_integer(text));
                    },
                    "none, or a whole number"});
  }
}

}  // namespace

void add_context_rows(SettingRows& rows) {
  add_deterministic_rows<at::Context>(rows);
  add_cudnn_rows<at::Context>(rows);
  add_attention_rows<at::Context>(rows);
  add_attention_order<at::Context>(rows);
  add_backend_rows<at::Context>(rows);
  add_blas_rows<at::Context>(rows);
}

}  // namespace repro_check::capture
