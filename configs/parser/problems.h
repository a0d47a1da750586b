// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "configs/parser/config_parser.h"

namespace repro_check::configs::detail {

/// Collects mistakes, so that a person reads all of them at once.
class Problems {
 public:
  void add(std::string pointer, std::string message) {
    if (final_.contains(pointer)) return;
    all_.push_back({std::move(pointer), std::move(message)});
  }
  /// As add, for a mistake that would cause others at the same place: those are not added.
  void add_final(const std::string& pointer, std::string message) {
    add(pointer, std::move(message));
    final_.insert(pointer);
  }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] const std::vector<ConfigProblem>& all() const noexcept { return all_; }
  [[nodiscard]] std::vector<ConfigProblem> take() noexcept { return std::exchange(all_, {}); }

 private:
  std::vector<ConfigProblem> all_;
  std::set<std::string, std::less<>> final_;
};

/// @throws core::Error{kUsage} always: `message`, and `hint` where to read what is accepted
[[noreturn]] void refuse(const std::string& message, const std::string& hint = kConfigHint);
/// As above, with a line a problem.
[[noreturn]] void refuse(const std::string& origin,
                         const std::vector<ConfigProblem>& problems,
                         const std::string& hint = kConfigHint);

/// `parent` and one more reference token, escaped as RFC 6901 has it.
std::string child_pointer(std::string_view parent, std::string_view token);
std::string child_pointer(std::string_view parent, std::size_t index);

/// The reference tokens of a JSON pointer, unescaped.
/// @return false when it is none
bool split_pointer(std::string_view pointer, std::vector<std::string>& tokens);

}  // namespace repro_check::configs::detail
