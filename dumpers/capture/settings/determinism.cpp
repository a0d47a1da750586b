// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/determinism.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/record_names.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/settings/environment.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/torch_compat.h"

// Which settings exist differs from release to release. Each is asked for with `requires` on a
// template parameter, so that one source serves all of them. What there is becomes one of the
// `rows` of the function around.

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): names that may not exist cannot be passed
#define TOGGLE(name, getter, setter)                                                            \
  if constexpr (requires(C & c) {                                                               \
                  c.getter();                                                                   \
                  c.setter(true);                                                               \
                }) {                                                                            \
    rows.push_back(toggle_row(                                                                  \
        name, [] { return context<C>().getter(); }, [](bool on) { context<C>().setter(on); })); \
  }

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): likewise
#define CHOICE(name, getter, setter)                                                       \
  if constexpr (requires(C & c) { c.getter(); }) {                                         \
    using Enum = decltype(context<C>().getter());                                          \
    rows.push_back(                                                                        \
        {name,                                                                             \
         [] { return enum_text(context<C>().getter()); },                                  \
         [](const std::string& text) { context<C>().setter(enum_from_text<Enum>(text)); }, \
         fmt::format("{}", fmt::join(enum_texts<Enum>(), ", "))});                         \
  }

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): likewise
#define REDUCTION(name, getter, setter)                                \
  if constexpr (requires(C & c) { c.getter(); }) {                     \
    rows.push_back(reduction_row(                                      \
        name,                                                          \
        [] { return context<C>().getter(); },                          \
        [](bool reduced, [[maybe_unused]] bool split) {                \
          if constexpr (requires(C & c) { c.setter(reduced, split); }) \
            context<C>().setter(reduced, split);                       \
          else                                                         \
            context<C>().setter(reduced);                              \
        }));                                                           \
  }

namespace repro_check::capture {

namespace {

/// One setting of LibTorch's, by name and as text.
struct SettingRow {
  std::string name;
  std::function<std::string()> get;             ///< may throw
  std::function<void(const std::string&)> set;  ///< empty = can only be read
  std::string accepts;                          ///< `on, off`; for messages
};

/// Thrown by a setter for a text it does not take.
struct UnknownSettingValue {};

using SettingRows = std::vector<SettingRow>;

constexpr std::string_view kUnreadable = "unreadable: ";

using Get = std::function<std::string()>;
using Set = std::function<void(const std::string&)>;

std::string on_off(bool on) { return on ? "on" : "off"; }

/// A setting that takes one of a few words.
SettingRow word_row(std::string name, std::vector<std::string> words, Get get, Set set) {
  std::string accepts = fmt::format("{}", fmt::join(words, ", "));
  Set checked = [words = std::move(words), set = std::move(set)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) throw UnknownSettingValue{};
    set(text);
  };
  return {std::move(name), std::move(get), std::move(checked), std::move(accepts)};
}

/// A setting that is `on` or `off`.
SettingRow toggle_row(std::string name, std::function<bool()> get, std::function<void(bool)> set) {
  return word_row(
      std::move(name),
      {"on", "off"},
      [get = std::move(get)] { return on_off(get()); },
      [set = std::move(set)](const std::string& text) { set(text == "on"); });
}

int parse_integer(const std::string& text, int least = std::numeric_limits<int>::min()) {
  const std::optional<int> number = core::parse_number<int>(text);
  if (!number || *number < least) throw UnknownSettingValue{};
  return *number;
}

/// `at::BlasBackend::Cublaslt` to `cublaslt`.
template <class Enum>
std::string enum_text(Enum value) {
  std::ostringstream stream;
  stream << value;
  std::string text = stream.str();
  const std::size_t colons = text.rfind("::");
  if (colons != std::string::npos) text.erase(0, colons + 2);
  return core::lower(text);
}

/// Every name, by number. The numbers shift between releases; the names do not.
template <class Enum>
std::vector<std::string> enum_texts() {
  constexpr int kMost = 16;  // LibTorch's enums are smaller
  std::vector<std::string> all;
  try {
    for (int number = 0; number < kMost; ++number) {
      all.push_back(enum_text(static_cast<Enum>(number)));
    }
  } catch (const std::exception&) {
    // Past the last one.
  }
  return all;
}

template <class Enum>
Enum enum_from_text(const std::string& text) {
  const std::vector<std::string> all = enum_texts<Enum>();
  const auto found = std::find(all.begin(), all.end(), text);
  if (found == all.end()) throw UnknownSettingValue{};
  return static_cast<Enum>(found - all.begin());
}

template <class C>
void add_deterministic_rows(SettingRows& rows) {
  rows.push_back(word_row(
      "deterministic_algorithms",
      {"off", "warn", "error"},
      []() -> std::string {
        if (!context<C>().deterministicAlgorithms()) return "off";
        return context<C>().deterministicAlgorithmsWarnOnly() ? "warn" : "error";
      },
      [](const std::string& text) {
        context<C>().setDeterministicAlgorithms(text != "off", text == "warn");
      }));
  TOGGLE("deterministic_fill_uninitialized_memory",
         deterministicFillUninitializedMemory,
         setDeterministicFillUninitializedMemory)
  TOGGLE("cudnn.enabled", userEnabledCuDNN, setUserEnabledCuDNN)
  TOGGLE("cudnn.deterministic", deterministicCuDNN, setDeterministicCuDNN)
  TOGGLE("cudnn.benchmark", benchmarkCuDNN, setBenchmarkCuDNN)
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
  TOGGLE("miopen.immediate", immediateMiopen, setImmediateMiopen)
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
void add_attention_rows(SettingRows& rows) {
  TOGGLE("sdp.flash", userEnabledFlashSDP, setSDPUseFlash)
  TOGGLE("sdp.math", userEnabledMathSDP, setSDPUseMath)
  TOGGLE("sdp.mem_efficient", userEnabledMemEfficientSDP, setSDPUseMemEfficient)
  TOGGLE("sdp.cudnn", userEnabledCuDNNSDP, setSDPUseCuDNN)
  TOGGLE("sdp.overrideable", userEnabledOverrideableSDP, setSDPUseOverrideable)
  TOGGLE("sdp.fa3", userEnabledFA3SDP, setSDPUseFA3)
  TOGGLE("sdp.fa4", userEnabledFA4SDP, setSDPUseFA4)
  TOGGLE("sdp.math_reduction", allowFP16BF16ReductionMathSDP, setAllowFP16BF16ReductionMathSDP)
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
  TOGGLE("mkldnn.enabled", userEnabledMkldnn, setUserEnabledMkldnn)
  TOGGLE("mkldnn.deterministic", deterministicMkldnn, setDeterministicMkldnn)
  TOGGLE("nnpack.enabled", userEnabledNNPACK, setUserEnabledNNPACK)
  rows.push_back({"xnnpack.available", [] { return on_off(C::isXNNPACKAvailable()); }, {}, {}});
  rows.push_back({"quantized.engine",
                  [] { return std::string(c10::toString(context<C>().qEngine())); },
                  [](const std::string& text) {
                    for (const c10::QEngine engine : C::supportedQEngines()) {
                      if (c10::toString(engine) == text) return context<C>().setQEngine(engine);
                    }
                    throw UnknownSettingValue{};
                  },
                  "an engine this LibTorch supports, as it is spelt there"});
  CHOICE("linalg.preferred_backend", linalgPreferredBackend, setLinalgPreferredBackend)
  CHOICE("blas.preferred_backend", blasPreferredBackend, setBlasPreferredBackend)
  if constexpr (requires(C & c) { c.blasDefaultBackend(); }) {
    rows.push_back({"blas.default_backend",
                    [] { return enum_text(context<C>().blasDefaultBackend()); },
                    {},
                    {}});
  }
  CHOICE("rocm.fa_preferred_backend", getROCmFAPreferredBackend, setROCmFAPreferredBackend)
  TOGGLE("cublaslt.grouped_gemm", preferCublasltGroupedGemm, setPreferCublasltGroupedGemm)
  TOGGLE("native_aot.allow", allowNativeAot, setAllowNativeAot)
  TOGGLE("native_aot.mask_unconditional", maskUnconditionalNativeAot, setMaskUnconditionalNativeAot)
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

// TF32 and reduced-precision sums: the part of at::Context that was rewritten most often.

/// A plain bool up to 2.9; from 2.10 an enum in which 0 means allowed.
template <class Value>
std::string reduction_text(Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return on_off(value);
  } else {
    const auto number = static_cast<int>(value);
    return number == 0 ? "on" : (number == 1 ? "splitk_only" : "off");
  }
}

template <class GetValue, class SetBoth>
SettingRow reduction_row(std::string name, GetValue get, SetBoth set) {
  std::vector<std::string> words{"on", "off"};
  if (!std::is_same_v<decltype(get()), bool>) words.insert(words.begin() + 1, "splitk_only");
  return word_row(
      std::move(name),
      std::move(words),
      [get] { return reduction_text(get()); },
      [set](const std::string& text) { set(text == "on", text != "off"); });
}

#if REPRO_CHECK_TORCH_AT_LEAST(2, 9)
std::string float32_precision(const char* backend, const char* op) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 10)
  return at::precision2str(
      at::globalContext().float32Precision(at::str2backend(backend), at::str2op(op)));
#else
  return at::globalContext().float32Precision(backend, op);
#endif
}

void set_float32_precision(const char* backend, const char* op, const std::string& text) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 10)
  at::globalContext().setFloat32Precision(
      at::str2backend(backend), at::str2op(op), at::str2precision(text));
#else
  at::globalContext().setFloat32Precision(backend, op, text);
#endif
}
#endif

/// The newer interface beside the old one. Never pinned: mixing the two makes the old getters
/// throw.
void add_float32_rows([[maybe_unused]] SettingRows& rows) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 9)
  const auto add = [&](const char* backend, const char* op) {
    rows.push_back(
        {fmt::format("float32_precision.{}.{}", backend, op),
         [backend, op] { return float32_precision(backend, op); },
         [backend, op](const std::string& text) { set_float32_precision(backend, op, text); },
         "none, ieee, tf32, bf16, as far as the backend has them"});
  };
  add("generic", "all");
  for (const char* backend : {"cuda", "mkldnn"}) {
    for (const char* op : {"all", "conv", "rnn", "matmul"}) add(backend, op);
  }
#endif
}

template <class C>
void add_tf32_rows(SettingRows& rows) {
  TOGGLE("tf32.cublas", allowTF32CuBLAS, setAllowTF32CuBLAS)
  rows.push_back(toggle_row(
      "tf32.cudnn",
      [] {
        if constexpr (requires(C & c) { c.allowTF32CuDNN(); }) {
          return context<C>().allowTF32CuDNN();
        } else {
          return context<C>().allowTF32CuDNN("all");
        }
      },
      [](bool on) { context<C>().setAllowTF32CuDNN(on); }));
  TOGGLE("tf32.onednn", allowTF32OneDNN, setAllowTF32OneDNN)
  // Without an Intel GPU the setter does nothing but warn.
  if constexpr (requires { C::hasXPU(); }) {
    if (rows.back().name == "tf32.onednn" && !C::hasXPU()) {
      rows.back().set = nullptr;
      rows.back().accepts.clear();
    }
  }
  rows.push_back(word_row(
      "float32_matmul_precision",
      {"highest", "high", "medium"},
      []() -> std::string {
        using Precision = at::Float32MatmulPrecision;
        const Precision precision = context<C>().float32MatmulPrecision();
        if (precision == Precision::HIGHEST) return "highest";
        return precision == Precision::HIGH ? "high" : "medium";
      },
      [](const std::string& text) { context<C>().setFloat32MatmulPrecision(text); }));
  REDUCTION("cublas.fp16_reduction", allowFP16ReductionCuBLAS, setAllowFP16ReductionCuBLAS)
  REDUCTION("cublas.bf16_reduction", allowBF16ReductionCuBLAS, setAllowBF16ReductionCuBLAS)
  TOGGLE("cublas.fp16_accumulation", allowFP16AccumulationCuBLAS, setAllowFP16AccumulationCuBLAS)
  TOGGLE("cpu.fp16_reduction", allowFP16ReductionCPU, setAllowFP16ReductionCPU)
}

void add_thread_counts(SettingRows& rows) {
  rows.push_back({"threads.intra_op",
                  [] { return std::to_string(at::get_num_threads()); },
                  [](const std::string& text) { at::set_num_threads(parse_integer(text, 1)); },
                  "a whole number from 1"});
  rows.push_back({"threads.inter_op",
                  [] { return std::to_string(at::get_num_interop_threads()); },
                  [](const std::string& text) {
                    // LibTorch takes this once in a process; asking for what is there is no change.
                    const int wanted = parse_integer(text, 1);
                    if (static_cast<int>(at::get_num_interop_threads()) != wanted) {
                      at::set_num_interop_threads(wanted);
                    }
                  },
                  "a whole number from 1, once in a process"});
}

void add_autocast(SettingRows& rows) {
  namespace autocast = at::autocast;
  for (const Autocast& each : autocasts()) {
    rows.push_back(toggle_row(std::string(each.name), each.is_on, each.turn));
  }
  rows.push_back(toggle_row(
      "autocast.cache", autocast::is_autocast_cache_enabled, autocast::set_autocast_cache_enabled));
}

void add_modes(SettingRows& rows) {
  constexpr std::uint32_t kFlushToZero = 1U << 15U;
  constexpr std::uint32_t kDenormalsAreZero = 1U << 6U;
  rows.push_back(toggle_row("grad_mode", at::GradMode::is_enabled, at::GradMode::set_enabled));
  rows.push_back(
      {"inference_mode", [] { return on_off(c10::InferenceMode::is_enabled()); }, {}, {}});
  rows.push_back(
      {"default_dtype",
       [] { return scalar_type_name(c10::typeMetaToScalarType(c10::get_default_dtype())); },
       [](const std::string& text) {
         const std::optional<core::Dtype> dtype = core::parse_dtype(text);
         if (!dtype || !core::is_floating(*dtype)) throw UnknownSettingValue{};
         const std::optional<c10::ScalarType> type = scalar_type_of(*dtype);
         if (!type) throw UnknownSettingValue{};
         c10::set_default_dtype(c10::scalarTypeToTypeMeta(*type));
       },
       "float16, bfloat16, float32, float64"});
  rows.push_back(toggle_row(
      "flush_denormal",
      [] { return (read_mxcsr() & (kFlushToZero | kDenormalsAreZero)) != 0; },
      [](bool on) { set_flush_denormal(on); }));
}

/// The settings that this LibTorch has, in a fixed order (docs/DECISIONS.md, settings).
const SettingRows& setting_rows() {
  static const SettingRows rows = [] {
    SettingRows all;
    add_deterministic_rows<at::Context>(all);
    add_attention_rows<at::Context>(all);
    add_backend_rows<at::Context>(all);
    // Restored backwards: the old setters first, because they change what the newer ones say.
    add_float32_rows(all);
    add_tf32_rows<at::Context>(all);
    add_thread_counts(all);
    add_autocast(all);
    add_modes(all);
    return all;
  }();
  return rows;
}

/// What the getter says, or `unreadable: <why>`.
std::string read_setting(const SettingRow& row) {
  try {
    return row.get();
  } catch (const std::exception& error) {
    return std::string(kUnreadable) + reason_of(error);
  }
}

const SettingRow* find_row(std::string_view name) {
  for (const SettingRow& row : setting_rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const SettingRow& require_row(const std::string& name) {
  if (const SettingRow* row = find_row(name)) return *row;
  std::vector<std::string_view> names;
  for (const SettingRow& row : setting_rows()) names.push_back(row.name);
  const std::optional<std::string_view> near = core::near_miss(name, names);
  throw core::usage_error(
      fmt::format("this LibTorch has no setting {}", name),
      near ? fmt::format("did you mean {}?", *near) : "`repro-check env` lists the settings");
}

/// Sets, and makes sure that LibTorch reports what was set.
void set_and_check(const SettingRow& row, const std::string& value) {
  if (!row.set) {
    throw core::usage_error(fmt::format("setting {} can be read but not set", row.name),
                            "leave it out of the configuration");
  }
  try {
    row.set(value);
  } catch (const UnknownSettingValue&) {
    throw core::usage_error(fmt::format("setting {} does not take `{}`", row.name, value),
                            fmt::format("it takes {}", row.accepts));
  } catch (const c10::Error& error) {
    throw core::usage_error(
        fmt::format("LibTorch refused to set {} to `{}`: {}", row.name, value, reason_of(error)),
        fmt::format("it takes {}", row.accepts));
  }
  const std::string reported = read_setting(row);
  if (reported != value) {
    throw core::run_failed(
        fmt::format("set {} to `{}`, but LibTorch reports `{}`", row.name, value, reported),
        "this processor or build cannot do it: leave the setting as it is");
  }
}

/// Sets what this release has; what it lacks needs no pinning.
void apply_where_present(std::string_view name, const std::string& value) {
  const SettingRow* row = find_row(name);
  if (row != nullptr && row->set && read_setting(*row) != value) set_and_check(*row, value);
}

void apply_determinism(core::DeterminismMode mode) {
  apply_where_present("deterministic_algorithms", std::string(core::name_of(mode)));
  constexpr std::string_view kOn =
      "deterministic_fill_uninitialized_memory cudnn.deterministic mkldnn.deterministic";
  constexpr std::string_view kOff =
      "cudnn.benchmark tf32.cublas tf32.cudnn tf32.onednn cublas.fp16_reduction "
      "cublas.bf16_reduction cublas.fp16_accumulation cpu.fp16_reduction sdp.math_reduction "
      "nnpack.enabled native_aot.allow";
  for (const std::string_view name : core::split(kOn, ' ')) apply_where_present(name, "on");
  for (const std::string_view name : core::split(kOff, ' ')) apply_where_present(name, "off");
}

void append_variables(std::vector<core::Setting>& settings) {
  for (const std::string_view name : core::known_variables()) {
    const char* value = std::getenv(std::string(name).c_str());
    const std::string text = value != nullptr ? value : "unset";
    settings.push_back({fmt::format("env.{}", name), text, text});
  }
}

void seed_one(const at::Generator& given,
              const std::string& name,
              std::uint64_t seed,
              std::vector<core::Setting>& settings) {
  at::Generator generator = given;
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const std::string found = std::to_string(generator.current_seed());
  generator.set_current_seed(seed);
  settings.push_back({name, found, std::to_string(generator.current_seed())});
}

}  // namespace

std::vector<core::EnvironmentFact> read_settings() {
  std::vector<core::EnvironmentFact> facts;
  for (const SettingRow& row : setting_rows()) facts.push_back({row.name, read_setting(row)});
  return facts;
}

class DeterminismPin::Impl : core::Pinned {
 public:
  explicit Impl(const PinRequest& request) {
    for (const SettingRow& row : setting_rows()) found_.push_back(read_setting(row));
    try {
      apply_request(request);
    } catch (...) {
      restore();
      throw;
    }
  }
  ~Impl() { restore(); }

  [[nodiscard]] std::vector<core::Setting> settings() const {
    std::vector<core::Setting> all;
    const SettingRows& rows = setting_rows();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.push_back({rows[i].name, found_[i], read_setting(rows[i])});
    }
    append_variables(all);
    return all;
  }

 private:
  void apply_request(const PinRequest& request) {
    for (const SettingRow& row : setting_rows()) {
      const bool autocast = row.name.rfind("autocast.", 0) == 0 && row.name != "autocast.cache";
      if (autocast) apply_where_present(row.name, "off");
    }
    apply_where_present("flush_denormal", "off");
    if (request.threads)
      set_and_check(require_row("threads.intra_op"), std::to_string(*request.threads));
    if (request.interop_threads) {
      set_and_check(require_row("threads.inter_op"), std::to_string(*request.interop_threads));
    }
    if (request.determinism != core::DeterminismMode::kOff) {
      apply_determinism(request.determinism);
    }
    for (const auto& [name, value] : request.settings) set_and_check(require_row(name), value);
    note_pinned_threads(request.threads || request.settings.count("threads.intra_op") > 0);
    if (request.grad == core::GradMode::kInference) {
      inference_.emplace();
    } else if (request.settings.count("grad_mode") == 0) {
      at::GradMode::set_enabled(request.grad == core::GradMode::kEnabled);
    }
  }

  void restore() noexcept {
    inference_.reset();
    note_pinned_threads(false);
    // Setters have side effects on each other, so that one round may not be enough.
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds && restore_once(); ++round) {
    }
  }

  /// In the opposite order, and only what differs. @return whether anything did
  bool restore_once() noexcept {
    bool changed = false;
    const SettingRows& rows = setting_rows();
    for (std::size_t i = rows.size(); i > 0; --i) {
      const SettingRow& row = rows[i - 1];
      const std::string& found = found_[i - 1];
      if (!row.set || row.name == "threads.inter_op" || found.rfind(kUnreadable, 0) == 0) continue;
      try {
        if (read_setting(row) == found) continue;
        changed = true;
        row.set(found);
      } catch (...) {
        // A value LibTorch reported and does not take back; the next run reads it afresh.
      }
    }
    return changed;
  }

  std::vector<std::string> found_;
  std::optional<c10::InferenceMode> inference_;
};

DeterminismPin::DeterminismPin(const PinRequest& request)
    : impl_(std::make_unique<Impl>(request)) {}

DeterminismPin::~DeterminismPin() = default;

std::vector<core::Setting> DeterminismPin::settings() const { return impl_->settings(); }

void put_found(const std::map<std::string, std::optional<std::string>>& variables,
               std::vector<core::Setting>& settings) {
  constexpr std::string_view kPrefix = "env.";
  for (core::Setting& setting : settings) {
    if (!setting.name.starts_with(kPrefix)) continue;
    const auto variable = variables.find(setting.name.substr(kPrefix.size()));
    if (variable != variables.end()) setting.found = variable->second.value_or("unset");
  }
}

void seed_generators(std::uint64_t seed, std::vector<core::Setting>& settings) {
  constexpr std::uint64_t kMaxSeed = 0xffffffff;
  if (seed > kMaxSeed) {
    throw core::usage_error(fmt::format("seed {} is above 4294967295", seed),
                            "LibTorch's CPU generator uses 32 bits of it: take a smaller one");
  }
  seed_one(at::detail::getDefaultCPUGenerator(), "generator.cpu", seed, settings);
  for (const c10::Device& device : present_devices()) {
    const std::string name = std::string(core::kGeneratorPrefix) + device.str();
    try {
      seed_one(at::globalContext().defaultGenerator(device), name, seed, settings);
    } catch (const c10::Error& error) {
      settings.push_back({name, "none", "none: " + reason_of(error)});
    }
  }
}

namespace {

/// A model that warns in a loop must not fill the memory.
constexpr std::size_t kMaxTexts = 1000;

}  // namespace

class WarningCollector::Impl final : public WarningListener, core::Pinned {
 public:
  Impl() : previous_(warnings_of::get_warning_handler()), always_(warnings_of::get_warnAlways()) {
    warnings_of::set_warning_handler(this);
    // Warnings given once in a process would be missing from the second run of a warm one.
    warnings_of::set_warnAlways(true);
  }
  ~Impl() override {
    warnings_of::set_warning_handler(previous_);
    warnings_of::set_warnAlways(always_);
  }

  [[nodiscard]] std::vector<std::string> texts() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  void hear(const std::string& said) override {
    // LibTorch says what a kernel lacks, and not who called it.
    const std::string call = running_call();
    std::string text = call.empty() ? said : call + ": " + said;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (texts_.size() >= kMaxTexts) return;
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end())
      texts_.push_back(std::move(text));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
  c10::WarningHandler* previous_;
  bool always_;
};

WarningCollector::WarningCollector() : impl_(std::make_unique<Impl>()) {}

WarningCollector::~WarningCollector() = default;

std::vector<std::string> WarningCollector::warnings() const { return impl_->texts(); }

}  // namespace repro_check::capture
