// SPDX-License-Identifier: Apache-2.0
// TF32 and reduced-precision sums: the part of at::Context that was rewritten most often.
#include <ATen/Context.h>

#include <array>
#include <string>
#include <type_traits>
#include <utility>

#include "dumpers/capture/settings/setting_table.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

template <class C>
bool cudnn_tf32() {
  if constexpr (requires(C & c) { c.allowTF32CuDNN(); }) {
    return context<C>().allowTF32CuDNN();
  } else {
    return context<C>().allowTF32CuDNN("all");
  }
}

/// A plain bool up to 2.9; from 2.10 an enum in which 0 means allowed.
template <class Value>
std::string reduction_text(Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return on_off(value);
  } else {
    switch (static_cast<int>(value)) {
      case 0:
        return "on";
      case 1:
        return "splitk_only";
      default:
        return "off";
    }
  }
}

template <class C, class Get, class Set>
SettingRow reduction_row(std::string name, Get get, Set set) {
  constexpr bool kSplit = !std::is_same_v<decltype(get(std::declval<C&>())), bool>;
  SettingRow row;
  row.name = std::move(name);
  row.get = [get] { return reduction_text(get(context<C>())); };
  row.set = [set](const std::string& text) {
    const bool known = text == "on" || text == "off" || (kSplit && text == "splitk_only");
    if (!known) throw UnknownSettingValue{};
    set(context<C>(), text == "on", text != "off");
  };
  row.accepts = kSplit ? "on, splitk_only, off" : "on, off";
  return row;
}

template <class C>
void add_tf32_rows(SettingRows& rows) {
  rows.push_back(toggle_row(
      "tf32.cublas",
      [] { return context<C>().allowTF32CuBLAS(); },
      [](bool on) { context<C>().setAllowTF32CuBLAS(on); }));
  rows.push_back(toggle_row(
      "tf32.cudnn",
      [] { return cudnn_tf32<C>(); },
      [](bool on) { context<C>().setAllowTF32CuDNN(on); }));
  if constexpr (requires(C & c) { c.allowTF32OneDNN(); }) {
    SettingRow row = toggle_row(
        "tf32.onednn",
        [] { return context<C>().allowTF32OneDNN(); },
        [](bool on) { context<C>().setAllowTF32OneDNN(on); });
    // Without an Intel GPU the setter does nothing but warn.
    if (!C::hasXPU()) {
      row.set = nullptr;
      row.accepts.clear();
    }
    rows.push_back(std::move(row));
  }
  rows.push_back({"float32_matmul_precision",
                  []() -> std::string {
                    switch (context<C>().float32MatmulPrecision()) {
                      case at::Float32MatmulPrecision::HIGHEST:
                        return "highest";
                      case at::Float32MatmulPrecision::HIGH:
                        return "high";
                      default:
                        return "medium";
                    }
                  },
                  [](const std::string& text) {
                    if (text != "highest" && text != "high" && text != "medium") {
                      throw UnknownSettingValue{};
                    }
                    context<C>().setFloat32MatmulPrecision(text);
                  },
                  "highest, high, medium"});
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
  constexpr std::array<std::pair<const char*, const char*>, 9> kPairs = {{{"generic", "all"},
                                                                          {"cuda", "all"},
                                                                          {"cuda", "conv"},
                                                                          {"cuda", "rnn"},
                                                                          {"cuda", "matmul"},
                                                                          {"mkldnn", "all"},
                                                                          {"mkldnn", "conv"},
                                                                          {"mkldnn", "rnn"},
                                                                          {"mkldnn", "matmul"}}};
  for (const auto& [backend, op] : kPairs) {
    const char* const of = backend;
    const char* const by = op;
    rows.push_back({std::string("float32_precision.") + of + '.' + by,
                    [of, by] { return float32_precision(of, by); },
                    [of, by](const std::string& text) { set_float32_precision(of, by, text); },
                    "none, ieee, tf32, bf16, as far as the backend has them"});
  }
#endif
}

template <class C>
void add_reduction_rows(SettingRows& rows) {
  rows.push_back(reduction_row<C>(
      "cublas.fp16_reduction",
      [](auto& c) { return c.allowFP16ReductionCuBLAS(); },
      [](auto& c, bool reduced, bool split) {
        if constexpr (requires { c.setAllowFP16ReductionCuBLAS(reduced, split); }) {
          c.setAllowFP16ReductionCuBLAS(reduced, split);
        } else {
          c.setAllowFP16ReductionCuBLAS(reduced);
        }
      }));
  if constexpr (requires(C & c) { c.allowBF16ReductionCuBLAS(); }) {
    rows.push_back(reduction_row<C>(
        "cublas.bf16_reduction",
        [](auto& c) { return c.allowBF16ReductionCuBLAS(); },
        [](auto& c, bool reduced, bool split) {
          if constexpr (requires { c.setAllowBF16ReductionCuBLAS(reduced, split); }) {
            c.setAllowBF16ReductionCuBLAS(reduced, split);
          } else {
            c.setAllowBF16ReductionCuBLAS(reduced);
          }
        }));
  }
  if constexpr (requires(C & c) { c.allowFP16AccumulationCuBLAS(); }) {
    rows.push_back(toggle_row(
        "cublas.fp16_accumulation",
        [] { return context<C>().allowFP16AccumulationCuBLAS(); },
        [](bool on) { context<C>().setAllowFP16AccumulationCuBLAS(on); }));
  }
  if constexpr (requires(C & c) { c.allowFP16ReductionCPU(); }) {
    rows.push_back(toggle_row(
        "cpu.fp16_reduction",
        [] { return context<C>().allowFP16ReductionCPU(); },
        [](bool on) { context<C>().setAllowFP16ReductionCPU(on); }));
  }
}

}  // namespace

void add_precision_rows(SettingRows& rows) {
  // Restored backwards: the old setters first, because they change what the newer ones say.
  add_float32_rows(rows);
  add_tf32_rows<at::Context>(rows);
  add_reduction_rows<at::Context>(rows);
}

}  // namespace repro_check::capture
