// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/torch/call_modes.h"

#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <fmt/format.h>

#include <array>
#include <optional>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

#if REPRO_CHECK_TORCH_AT_LEAST(2, 4)
template <c10::DeviceType kDevice>
constexpr Autocast autocast_of(std::string_view name) {
  return {name,
          [] { return at::autocast::is_autocast_enabled(kDevice); },
          [](bool on) { at::autocast::set_autocast_enabled(kDevice, on); },
          [] { return at::autocast::get_autocast_dtype(kDevice); },
          [](c10::ScalarType dtype) { at::autocast::set_autocast_dtype(kDevice, dtype); }};
}
constexpr std::array kAutocasts{autocast_of<c10::kCPU>("autocast.cpu"),
                                autocast_of<c10::kCUDA>("autocast.cuda"),
                                autocast_of<c10::kXPU>("autocast.xpu"),
                                autocast_of<c10::kPrivateUse1>("autocast.npu")};
#else
constexpr std::array kAutocasts{Autocast{"autocast.cpu",
                                         at::autocast::is_cpu_enabled,
                                         at::autocast::set_cpu_enabled,
                                         at::autocast::get_autocast_cpu_dtype,
                                         at::autocast::set_autocast_cpu_dtype},
                                Autocast{"autocast.cuda",
                                         at::autocast::is_enabled,
                                         at::autocast::set_enabled,
                                         at::autocast::get_autocast_gpu_dtype,
                                         at::autocast::set_autocast_gpu_dtype},
                                Autocast{"autocast.xpu",
                                         at::autocast::is_xpu_enabled,
                                         at::autocast::set_xpu_enabled,
                                         at::autocast::get_autocast_xpu_dtype,
                                         at::autocast::set_autocast_xpu_dtype}};
#endif

void turn(const Autocast& autocast, std::optional<c10::ScalarType> dtype) {
  autocast.turn(dtype.has_value());
  if (dtype) autocast.set_dtype(*dtype);
  at::autocast::clear_cache();
}

[[noreturn]] void refuse(std::string_view mode) {
  throw core::not_comparable(
      fmt::format("the call was made under {}, which this LibTorch does not have",
                  core::printable(mode)),
      "use the recorder that made the dump: --recorder");
}

}  // namespace

std::span<const Autocast> autocasts() noexcept { return kAutocasts; }

std::string read_call_modes() {
  std::string text;
  const auto add = [&](std::string_view name, c10::ScalarType type) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, scalar_type_name(type));
  };
  for (const Autocast& autocast : kAutocasts) {
    if (autocast.is_on()) add(autocast.name, autocast.dtype());
  }
  const c10::ScalarType standard = c10::get_default_dtype_as_scalartype();
  if (standard != c10::kFloat) add(core::kDefaultDtypeMode, standard);
  return text;
}

CallModesPin::CallModesPin(std::string_view modes) {
  std::optional<c10::ScalarType> standard = c10::kFloat;
  std::array<std::optional<c10::ScalarType>, kAutocasts.size()> on;
  for (const auto& [name, word] : core::call_modes(modes)) {
    if (name == core::kModuleMode) continue;
    const auto dtype = core::parse_dtype(word);
    const auto type = dtype ? scalar_type_of(*dtype) : std::nullopt;
    if (!type) refuse(name);
    if (name == core::kDefaultDtypeMode) {
      standard = type;
      continue;
    }
    std::size_t place = 0;
    while (place < kAutocasts.size() && kAutocasts[place].name != name) ++place;
    if (place == kAutocasts.size()) refuse(name);
    on[place] = type;
  }
  for (std::size_t i = 0; i < kAutocasts.size(); ++i) {
    const Autocast& autocast = kAutocasts[i];
    if (!on[i] && !autocast.is_on()) continue;
    undo_.emplace_back([&autocast, was = autocast.is_on(), dtype = autocast.dtype()] {
      autocast.set_dtype(dtype);
      turn(autocast, was ? std::optional(dtype) : std::nullopt);
    });
    turn(autocast, on[i]);
  }
  undo_.emplace_back([found = c10::get_default_dtype()] { c10::set_default_dtype(found); });
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(*standard));
}

CallModesPin::~CallModesPin() {
  for (const auto& undo : undo_) undo();
}

}  // namespace repro_check::capture
