// SPDX-License-Identifier: Apache-2.0
#include "configs/detail/problems.h"

#include <cstddef>

namespace repro_check::configs::detail {

std::string child_pointer(std::string_view parent, std::string_view token) {
  std::string pointer(parent);
  pointer += '/';
  for (const char c : token) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

std::string child_pointer(std::string_view parent, std::size_t index) {
  return std::string(parent) + '/' + std::to_string(index);
}

bool split_pointer(std::string_view pointer, std::vector<std::string>& tokens) {
  tokens.clear();
  if (!pointer.empty() && pointer.front() != '/') return false;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (pointer[i] != '~') {
      tokens.back() += pointer[i];
    } else if (i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      tokens.back() += pointer[++i] == '0' ? '~' : '/';
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace repro_check::configs::detail
