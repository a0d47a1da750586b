// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/text/utf8.h"

namespace repro_check::cmd {
namespace {

void append_escaped(std::string& out, const core::Utf8Char& character) {
  const auto value = static_cast<std::uint32_t>(character.value);
  if (value <= 0xFF) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", value);
  } else if (value <= 0xFFFF) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", value);
  }
}

// `##[command]` of the GitHub runner, `##vso[` of Azure Pipelines, `##teamcity[`: seen anywhere in
// a line, so the bracket goes. `::error` counts only at a line's start, where wrapping may put a
// word.
bool opens_workflow_command(std::string_view before) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  while (!before.empty() && is_letter(before.back())) {
    before.remove_suffix(1);
  }
  return before.ends_with("##");
}

std::size_t columns_of(const core::Utf8Char& character) noexcept {
  constexpr char32_t kFirstWide = 0x1100;
  return character.valid && character.value >= kFirstWide ? 2 : 1;
}

bool is_shell_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:,+@%=").find(c) != std::string_view::npos;
}

bool needs_ansi_quotes(std::string_view word) {
  if (word.find("##") != std::string_view::npos) {
    return true;
  }
  while (!word.empty()) {
    const core::Utf8Char character = core::first_char(word);
    if (!character.valid || core::is_hostile(character.value)) {
      return true;
    }
    word.remove_prefix(character.bytes);
  }
  return false;
}

// Bash, zsh and ksh read $'...'; every byte that is not plain ASCII is written as a number, and so
// is the bracket that could complete a workflow command.
std::string ansi_quoted(std::string_view word) {
  std::string out = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7E || c == '[') {
      // Octal takes at most three digits, so a digit that follows is not swallowed.
      fmt::format_to(std::back_inserter(out), "\\{:03o}", byte);
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace

std::string escape_name(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const core::Utf8Char character = core::first_char(name);
    const bool is_word_start = out.empty() || out.back() == ' ';
    if (!character.valid || core::is_hostile(character.value) ||
        (character.value == '[' && opens_workflow_command(out)) ||
        (is_word_start && name.starts_with("::"))) {
      append_escaped(out, character);
    } else {
      out.append(name.substr(0, character.bytes));
    }
    name.remove_prefix(character.bytes);
  }
  return out;
}

std::string clean_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const core::Utf8Char character = core::first_char(text);
    out.append(character.valid ? text.substr(0, character.bytes) : "\xEF\xBF\xBD");
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::size_t columns(std::string_view text) noexcept {
  std::size_t total = 0;
  while (!text.empty()) {
    const core::Utf8Char character = core::first_char(text);
    total += columns_of(character);
    text.remove_prefix(character.bytes);
  }
  return total;
}

std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  std::size_t taken = 0;
  while (bytes < text.size()) {
    const core::Utf8Char character = core::first_char(text.substr(bytes));
    taken += columns_of(character);
    if (taken > width) break;
    bytes += character.bytes;
  }
  return bytes;
}

std::string fit(std::string_view text, std::size_t width) {
  if (columns(text) <= width) {
    return std::string(text);
  }
  constexpr std::string_view kDots = "...";
  const std::size_t room = width > kDots.size() ? width - kDots.size() : 0;
  const std::string_view head = text.substr(0, bytes_within(text, room / 2));
  const std::size_t tail_room = room - columns(head);
  std::string_view rest = text.substr(head.size());
  std::size_t tail = columns(rest);
  while (tail > tail_room) {
    const core::Utf8Char next = core::first_char(rest);
    tail -= columns_of(next);
    rest.remove_prefix(next.bytes);
  }
  return std::string(head).append(kDots).append(rest);
}

std::string raw_place_text(const core::CallSite* site) {
  if (site == nullptr) {
    return {};
  }
  std::string out = site->module_path;
  const core::SourceFrame* frame = core::display_frame(*site);
  if (frame == nullptr || frame->file.empty()) {
    return out;
  }
  const std::string_view file = frame->file;
  const std::size_t slash = file.find_last_of('/');
  out += out.empty() ? "" : ", ";
  out += slash == std::string_view::npos ? file : file.substr(slash + 1);
  return frame->line == 0 ? out : fmt::format("{}:{}", out, frame->line);
}

std::string place_text(const core::CallSite* site) { return escape_name(raw_place_text(site)); }

std::string shell_quote(std::string_view word) {
  if (needs_ansi_quotes(word)) {
    return ansi_quoted(word);
  }
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_shell_safe)) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

}  // namespace repro_check::cmd
