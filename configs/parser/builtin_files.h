// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace repro_check::configs::detail {

struct Preset {
  std::string_view name;
  std::string_view json;
};

// Files of configs/, as they were when this was built.

/// Sorted by name.
std::span<const Preset> builtin_presets() noexcept;
/// repro-check-config.schema.json
std::string_view builtin_schema() noexcept;

}  // namespace repro_check::configs::detail
