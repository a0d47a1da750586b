// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace repro_check::configs::detail {

struct Preset {
  std::string_view name;
  std::string_view json;
};

/// The files of configs/presets, as they were when this was built; sorted by name.
std::span<const Preset> builtin_presets() noexcept;

}  // namespace repro_check::configs::detail
