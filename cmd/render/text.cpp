// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "core/tensor/element_number.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;

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
  while (!before.empty() && is_letter(before.back())) before.remove_suffix(1);
  return before.ends_with("##");
}

std::size_t columns_of(const core::Utf8Char& character) noexcept {
  constexpr char32_t kFirstWide = 0x1100;
  return character.valid && character.value >= kFirstWide ? 2 : 1;
}

/// How many bytes of whole characters there is room for. @param size_of  what one takes of it
template <typename SizeOf>
std::size_t bytes_with_room(std::string_view text, std::size_t room, const SizeOf& size_of) {
  std::size_t bytes = 0;
  std::size_t taken = 0;
  while (bytes < text.size()) {
    const core::Utf8Char character = core::first_char(text.substr(bytes));
    taken += size_of(character);
    if (taken > room) break;
    bytes += character.bytes;
  }
  return bytes;
}

/// Letters, digits, and some others.
bool is_plain(char c, std::string_view others) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         others.find(c) != std::string_view::npos;
}

bool needs_ansi_quotes(std::string_view word) {
  if (word.find("##") != std::string_view::npos) return true;
  while (!word.empty()) {
    const core::Utf8Char character = core::first_char(word);
    if (!character.valid || core::is_hostile(character.value)) return true;
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

template <typename IsKept>
std::string percent_encoded(std::string_view text, const IsKept& is_kept) {
  std::string out;
  for (const char c : text) {
    out += is_kept(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

/// Data of a workflow command, with some characters as numbers.
std::string without(std::string_view characters, std::string_view text) {
  return percent_encoded(escape_lines(text),
                         [&](char c) { return characters.find(c) == std::string_view::npos; });
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

std::string trim_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string complex_text(Dtype dtype, std::span<const std::byte> bytes) {
  const std::size_t half = bytes.size() / 2;
  const std::string real = element_text(core::part_dtype(dtype), bytes.first(half));
  const std::string imaginary = element_text(core::part_dtype(dtype), bytes.subspan(half));
  return real + (imaginary.starts_with('-') ? "" : "+") + imaginary + "j";
}

std::string bool_text(std::span<const std::byte> bytes) {
  const auto value = std::to_integer<unsigned>(bytes.front());
  // Any other byte is a bool that torch reads as true and that is not bit-equal to true.
  return value == 0 ? "False" : (value == 1 ? "True" : fmt::format("True (byte {})", value));
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
  return bytes_with_room(text, width, columns_of);
}

std::string fit(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
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

std::string place_text(const core::CallSite* site) { return escape_name(core::place_of(site)); }

std::string shell_quote(std::string_view word) {
  if (needs_ansi_quotes(word)) return ansi_quoted(word);
  const auto is_safe = [](char c) { return is_plain(c, "_-./:,+@%="); };
  if (!word.empty() && std::ranges::all_of(word, is_safe)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

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
  const std::size_t room = bytes > kCut.size() ? bytes - kCut.size() : 0;
  const auto size_of = [](const core::Utf8Char& character) { return character.bytes; };
  return std::string(text.substr(0, bytes_with_room(text, room, size_of))).append(kCut);
}

std::string xml_text(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kEntities{"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
  std::string out;
  for (const char c : escape_lines(text)) {
    const std::size_t which = kSpecial.find(c);
    out += which < kEntities.size() ? kEntities.at(which) : std::string(1, c);
  }
  return out;
}

std::string annotation_text(std::string_view text) { return without("%\r\n", text); }

std::string annotation_property(std::string_view text) { return without("%\r\n:,", text); }

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
  return percent_encoded(path, [](char c) { return is_plain(c, "-._~/"); });
}

std::string identifier(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = is_plain(c, "._-") ? c : '_';
  return out;
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  return joined(texts, between, [](const std::string& text) -> const std::string& { return text; });
}

std::string format_count(std::uint64_t count) {
  constexpr std::uint64_t kFirstGrouped = 10000;
  std::string digits = fmt::format("{}", count);
  if (count < kFirstGrouped) return digits;
  for (std::size_t at = digits.size() - 3; at > 0 && at < digits.size(); at -= 3) {
    digits.insert(at, 1, ',');
    if (at < 3) break;
  }
  return digits;
}

std::string format_count(std::uint64_t count, std::string_view noun) {
  const char* const many = noun.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : many);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 rounds to 1000, which belongs to the next unit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits.at(unit));
}

std::string format_percent(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) return "0 %";
  if (part >= whole) return "100 %";
  // Both ends are computed from the small side: 1 - tiny would have lost it.
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  const double missing = 100.0 * static_cast<double>(whole - part) / static_cast<double>(whole);
  if (percent < 0.001) return "<0.001 %";
  if (missing < 0.001) return ">99.999 %";
  if (missing < 1) {
    const int decimals = missing >= 0.1 ? 2 : (missing >= 0.01 ? 3 : 4);
    return trim_zeros(fmt::format("{:.{}f}", percent, decimals)) + " %";
  }
  return percent < 10 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string format_error(double value) {
  if (std::isnan(value)) {
    return "nan";  // never "-nan": the sign of a NaN metric means nothing
  }
  return fmt::format("{:.4g}", value);
}

std::string format_ulp(std::uint64_t ulp) {
  constexpr std::uint64_t kFirstRounded = 1000000;
  return ulp < kFirstRounded ? fmt::format("{}", ulp)
                             : fmt::format("{:.2g}", static_cast<double>(ulp));
}

std::string format_seconds(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.2g} s", seconds);
  if (seconds < 119.5) return fmt::format("{:.0f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string format_index(std::span<const std::int64_t> index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string format_tensor_type(core::Dtype dtype, std::span<const std::int64_t> shape) {
  return fmt::format("{} {}", core::dtype_name(dtype), format_index(shape));
}

std::string element_text(core::Dtype dtype, std::span<const std::byte> element) {
  if (element.empty() || element.size() != core::element_size(dtype)) {
    return "0x" + core::hex_text(element);
  }
  if (core::is_complex(dtype)) return complex_text(dtype, element);
  if (dtype == Dtype::kBool) return bool_text(element);
  const std::string text = core::number_text(dtype, element);
  return text.empty() ? "0x" + core::hex_text(element) : text;
}

}  // namespace repro_check::cmd
