// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::core {

/// Whether the whole of `text` matches `pattern`: `*` any run of characters, `?` one character, all
/// else itself. Time is at most proportional to the product of the lengths; nothing recurses.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

}  // namespace repro_check::core
