// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace repro_check::cmd {

/// The template of a phrase of comparators, as say() takes it; empty where there is none.
std::string_view phrase_text(std::string_view key) noexcept;

/// All keys.
std::vector<std::string_view> phrase_keys();

}  // namespace repro_check::cmd
