// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace repro_check::cmd {

enum class ColorMode { kAuto, kAlways, kNever };

/// Reads a variable; null when it is unset. Injected so that tests need not touch the environment.
using ReadVariable = std::function<const char*(const char* name)>;

/// Whether one stream gets colours. First that decides: `--color` always or never; NO_COLOR
/// non-empty: no; CLICOLOR_FORCE or FORCE_COLOR non-empty and not "0": yes; CLICOLOR "0" or TERM
/// "dumb": no; else whether the stream is a terminal. Decide for stdout and stderr separately.
bool use_color(ColorMode mode, bool is_terminal, const ReadVariable& read_variable);

/// Whether a stream gets hyperlinks. First that decides: `--color never`: no; FORCE_HYPERLINK
/// non-empty: whether it is not "0"; no terminal, TERM "dumb", CI set or a multiplexer: no; else
/// whether the terminal is one that is known to take OSC 8.
bool use_links(ColorMode mode, bool is_terminal, const ReadVariable& read_variable);

/// What stdout's text is wrapped to: COLUMNS where it is a number, else the width of the terminal;
/// 0 = no terminal, nothing is wrapped.
std::size_t text_columns(bool is_terminal, const ReadVariable& read_variable);

}  // namespace repro_check::cmd
