// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace repro_check::core {

/// An environment variable that can change the numbers a model gives.
struct KnownVariable {
  std::string_view name;
  std::string_view reader;  ///< `libgomp`, `MKL`, `ATen`, `oneDNN`, `cuBLAS`, ...
  std::string_view effect;  ///< one line: what it changes
};

/// Every variable that is recorded in a manifest whether set or not, sorted by name.
std::span<const KnownVariable> known_variables() noexcept;

}  // namespace repro_check::core
