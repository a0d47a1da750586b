// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <charconv>
#include <string>

#include "core/tensor/dtype.h"
#include "dumpers/capture/settings/setting_table.h"
#include "dumpers/capture/tensors/hashing.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/capture/torch/torch_names.h"

namespace repro_check::capture {
namespace {

constexpr std::uint32_t kFlushToZero = 1U << 15U;
constexpr std::uint32_t kDenormalsAreZero = 1U << 6U;

int parse_threads(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1) {
    throw UnknownSettingValue{};
  }
  return number;
}

void add_thread_counts(SettingRows& rows) {
  rows.push_back({"threads.intra_op",
                  [] { return std::to_string(at::get_num_threads()); },
                  [](const std::string& text) { at::set_num_threads(parse_threads(text)); },
                  "a whole number from 1"});
  rows.push_back({"threads.inter_op",
                  [] { return std::to_string(at::get_num_interop_threads()); },
                  [](const std::string& text) {
                    // LibTorch takes this once in a process; asking for what is there is no change.
                    const int wanted = parse_threads(text);
                    if (static_cast<int>(at::get_num_interop_threads()) != wanted) {
                      at::set_num_interop_threads(wanted);
                    }
                  },
                  "a whole number from 1, once in a process"});
}

void add_autocast(SettingRows& rows) {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 4)
  for (const auto& [name, type] : {std::pair{"autocast.cpu", c10::DeviceType::CPU},
                                   std::pair{"autocast.cuda", c10::DeviceType::CUDA},
                                   std::pair{"autocast.xpu", c10::DeviceType::XPU},
                                   std::pair{"autocast.npu", c10::DeviceType::PrivateUse1}}) {
    const c10::DeviceType device = type;
    rows.push_back(toggle_row(
        name,
        [device] { return at::autocast::is_autocast_enabled(device); },
        [device](bool on) { at::autocast::set_autocast_enabled(device, on); }));
  }
#else
  rows.push_back(toggle_row(
      "autocast.cpu",
      [] { return at::autocast::is_cpu_enabled(); },
      [](bool on) { at::autocast::set_cpu_enabled(on); }));
  rows.push_back(toggle_row(
      "autocast.cuda",
      [] { return at::autocast::is_enabled(); },
      [](bool on) { at::autocast::set_enabled(on); }));
  rows.push_back(toggle_row(
      "autocast.xpu",
      [] { return at::autocast::is_xpu_enabled(); },
      [](bool on) { at::autocast::set_xpu_enabled(on); }));
#endif
  rows.push_back(toggle_row(
      "autocast.cache",
      [] { return at::autocast::is_autocast_cache_enabled(); },
      [](bool on) { at::autocast::set_autocast_cache_enabled(on); }));
}

void add_modes(SettingRows& rows) {
  rows.push_back(toggle_row(
      "grad_mode",
      [] { return at::GradMode::is_enabled(); },
      [](bool on) { at::GradMode::set_enabled(on); }));
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

}  // namespace

void add_thread_rows(SettingRows& rows) {
  add_thread_counts(rows);
  add_autocast(rows);
  add_modes(rows);
}

}  // namespace repro_check::capture
