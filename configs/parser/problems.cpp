// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
namespace {

/// A file that is something else altogether would otherwise give a line a key.
constexpr std::size_t kMostLines = 100;

}  // namespace

void refuse(const std::string& message, const std::string& hint) {
  throw core::Error(core::ErrorKind::kUsage, message, hint);
}

void refuse(const std::string& origin,
            const std::vector<ConfigProblem>& problems,
            const std::string& hint) {
  std::string lines;
  for (std::size_t i = 0; i < std::min(problems.size(), kMostLines); ++i) {
    if (i > 0) lines += '\n';
    lines += problem_line(origin, problems[i]);
  }
  if (problems.size() > kMostLines) {
    lines +=
        fmt::format("\n{}: and {} more", core::printable(origin), problems.size() - kMostLines);
  }
  refuse(lines, hint);
}

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
