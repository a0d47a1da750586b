// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cmd/render/text.h"
#include "core/text/utf8.h"

namespace repro_check::cmd {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// @param meaning  text of a character, or empty for the character itself
template <typename Meaning>
std::string replace_each(std::string_view text, const Meaning& meaning) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const std::string_view replacement = meaning(c);
    if (replacement.empty()) {
      out += c;
    } else {
      out += replacement;
    }
  }
  return out;
}

std::string percent_encoded(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) == std::string_view::npos) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string backticks_beyond(std::string_view text, std::size_t least) {
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  std::string fence;
  fence.resize(std::max(least, longest + 1), '`');
  return fence;
}

}  // namespace

std::string escape_lines(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    out += escape_name(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string shorten_bytes(std::string_view text, std::size_t bytes) {
  constexpr std::string_view kCut = " ...";
  if (text.size() <= bytes) return std::string(text);
  std::size_t size = 0;
  const std::size_t room = bytes > kCut.size() ? bytes - kCut.size() : 0;
  while (size < text.size()) {
    const std::size_t next = size + core::first_char(text.substr(size)).bytes;
    if (next > room) break;
    size = next;
  }
  return std::string(text.substr(0, size)).append(kCut);
}

std::string xml_text(std::string_view text) {
  return replace_each(escape_lines(text), [](char c) -> std::string_view {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&apos;";
      default:
        return {};
    }
  });
}

std::string annotation_text(std::string_view text) {
  return percent_encoded(escape_lines(text), "%\r\n");
}

std::string annotation_property(std::string_view text) {
  return percent_encoded(escape_lines(text), "%\r\n:,");
}

std::string markdown_code(std::string_view text) {
  const std::string name = escape_name(text);
  if (name.empty()) return "-";
  std::string cell;
  for (const char c : name) {
    // A backslash before the one that protects the bar could be read as protecting that one.
    const bool is_doubtful = c == '|' && !cell.empty() && cell.back() == '\\';
    cell += is_doubtful ? "x7c" : (c == '|' ? std::string("\\|") : std::string(1, c));
  }
  const std::string fence = backticks_beyond(cell, 1);
  // A space at both ends is taken off again; it keeps a backtick or a space of the name apart.
  const bool needs_room =
      cell.front() == '`' || cell.back() == '`' || cell.front() == ' ' || cell.back() == ' ';
  const std::string_view room = needs_room ? " " : "";
  return fmt::format("{}{}{}{}{}", fence, room, cell, room, fence);
}

std::string markdown_block(std::string_view lines) {
  const std::string text = escape_lines(lines);
  const std::string fence = backticks_beyond(text, 3);
  return fmt::format("{}text\n{}{}{}\n", fence, text, text.ends_with('\n') ? "" : "\n", fence);
}

std::string sarif_text(std::string_view text) {
  std::string out;
  const std::string escaped = escape_lines(text);
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    const char c = escaped[i];
    const bool ends_link_text = c == ']' && i + 1 < escaped.size() && escaped[i + 1] == '(';
    if (ends_link_text) out += '\\';
    if (c == '{' || c == '}') out += c;
    out += c;
  }
  return out;
}

std::string uri_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (is_alphanumeric(c) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string identifier(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += is_alphanumeric(c) || c == '.' || c == '_' || c == '-' ? c : '_';
  }
  return out;
}

}  // namespace repro_check::cmd
