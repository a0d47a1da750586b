// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/color.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

/// Of a terminal that does not say how wide it is.
constexpr std::size_t kUsualColumns = 80;

std::string_view value_of(const ReadVariable& read_variable, const char* name) {
  const char* value = read_variable(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

/// VTE 0.50 is the first that takes them.
constexpr int kFirstVte = 5000;

bool knows_links(const ReadVariable& read_variable) {
  constexpr std::array kPrograms{"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby"};
  constexpr std::array kTerms{"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour"};
  const std::string_view program = value_of(read_variable, "TERM_PROGRAM");
  const std::string_view term = value_of(read_variable, "TERM");
  for (const char* name : {"KONSOLE_VERSION", "WT_SESSION", "KITTY_WINDOW_ID", "WEZTERM_PANE"}) {
    if (!value_of(read_variable, name).empty()) return true;
  }
  const auto vte = core::parse_number<int>(value_of(read_variable, "VTE_VERSION"));
  return vte.value_or(0) >= kFirstVte || std::ranges::find(kPrograms, program) != kPrograms.end() ||
         std::ranges::find(kTerms, term) != kTerms.end();
}

bool is_forced(std::string_view value) { return !value.empty() && value != "0"; }

}  // namespace

bool use_color(ColorMode mode, bool is_terminal, const ReadVariable& read_variable) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (!value_of(read_variable, "NO_COLOR").empty()) return false;
  if (is_forced(value_of(read_variable, "CLICOLOR_FORCE")) ||
      is_forced(value_of(read_variable, "FORCE_COLOR"))) {
    return true;
  }
  if (value_of(read_variable, "CLICOLOR") == "0" || value_of(read_variable, "TERM") == "dumb") {
    return false;
  }
  return is_terminal;
}

bool use_links(ColorMode mode, bool is_terminal, const ReadVariable& read_variable) {
  if (mode == ColorMode::kNever) return false;
  if (const std::string_view forced = value_of(read_variable, "FORCE_HYPERLINK"); !forced.empty()) {
    return forced != "0";
  }
  const std::string_view term = value_of(read_variable, "TERM");
  const bool is_multiplexed = term.starts_with("screen") || term.starts_with("tmux");
  if (!is_terminal || term == "dumb" || is_multiplexed || !value_of(read_variable, "CI").empty()) {
    return false;
  }
  return knows_links(read_variable);
}

std::size_t text_columns(bool is_terminal, const ReadVariable& read_variable) {
  const auto columns = core::parse_number<std::size_t>(value_of(read_variable, "COLUMNS"));
  if (columns.value_or(0) != 0) return *columns;
  if (!is_terminal) return 0;
  winsize size{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  return is_known ? size.ws_col : kUsualColumns;
}

}  // namespace repro_check::cmd
