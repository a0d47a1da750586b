// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::cmd {

/// A file `.in` of cmd/, as it was when this was built: part of a program that the tool writes.
/// @param name  `extract/main.py`
std::string_view builtin_text(std::string_view name) noexcept;

}  // namespace repro_check::cmd
