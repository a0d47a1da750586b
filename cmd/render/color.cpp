// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/color.h"

#include <cstdlib>
#include <string_view>

namespace repro_check::cmd {
namespace {

std::string_view value_of(const ReadVariable& read_variable, const char* name) {
  const char* value = read_variable(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

bool is_forced(std::string_view value) { return !value.empty() && value != "0"; }

}  // namespace

bool use_color(ColorMode mode, bool is_terminal, const ReadVariable& read_variable) {
  if (mode != ColorMode::kAuto) {
    return mode == ColorMode::kAlways;
  }
  if (!value_of(read_variable, "NO_COLOR").empty()) {
    return false;
  }
  if (is_forced(value_of(read_variable, "CLICOLOR_FORCE")) ||
      is_forced(value_of(read_variable, "FORCE_COLOR"))) {
    return true;
  }
  if (value_of(read_variable, "CLICOLOR") == "0" || value_of(read_variable, "TERM") == "dumb") {
    return false;
  }
  return is_terminal;
}

bool use_color(ColorMode mode, bool is_terminal) {
  return use_color(mode, is_terminal, [](const char* name) { return std::getenv(name); });
}

}  // namespace repro_check::cmd
