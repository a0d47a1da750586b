// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/gate_name.h"

#include <algorithm>
#include <cstddef>

namespace repro_check::configs {

bool is_gate_name(std::string_view text) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  constexpr std::size_t kLongestName = 100;
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' &&
         text.front() != '-' && std::ranges::all_of(text, is_safe);
}

}  // namespace repro_check::configs
