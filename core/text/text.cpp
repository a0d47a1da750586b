// SPDX-License-Identifier: Apache-2.0
#include "core/text/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <utility>

namespace repro_check::core {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Beyond the C0 and C1 controls: soft hyphen, the bidirectional controls (Unicode Standard Annex 9,
// table 2.1), line and paragraph separators, and the format characters that take no column, tag
// characters included; and the two that XML has no way to write. Sorted.
constexpr std::array<Range, 12> kHostileRanges = {{{0x00, 0x1F},
                                                   {0x7F, 0x9F},
                                                   {0xAD, 0xAD},
                                                   {0x61C, 0x61C},
                                                   {0x180E, 0x180E},
                                                   {0x200B, 0x200F},
                                                   {0x2028, 0x202E},
                                                   {0x2060, 0x206F},
                                                   {0xFEFF, 0xFEFF},
                                                   {0xFFF9, 0xFFFB},
                                                   {0xFFFE, 0xFFFF},
                                                   {0xE0000, 0xE007F}}};

std::size_t expected_length(unsigned char lead) noexcept {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return 2;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    return 3;
  }
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// The least value that needs so many bytes: anything below it is an overlong form.
bool is_in_range(char32_t value, std::size_t length) noexcept {
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  return value >= kLeast.at(length) && value <= 0x10FFFF && !is_surrogate;
}

}  // namespace

Utf8Char first_char(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = expected_length(lead);
  const Utf8Char invalid{lead, 1, false};
  if (length == 0 || length > text.size()) {
    return invalid;
  }
  if (length == 1) {
    return {lead, 1, true};
  }
  char32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) {
      return invalid;
    }
    value = (value << 6U) | (next & 0x3FU);
  }
  return is_in_range(value, length) ? Utf8Char{value, length, true} : invalid;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Char next = first_char(text);
    if (!next.valid) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

bool is_hostile(char32_t character) noexcept {
  if (character >= 0x20 && character <= 0x7E) {
    return false;  // nearly every character there is
  }
  return std::any_of(kHostileRanges.begin(), kHostileRanges.end(), [&](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

namespace {

/// The short forms that everybody knows, hexadecimal for the rest.
void append_escaped(std::string& out, std::uint32_t code) {
  switch (code) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(
          std::back_inserter(out), fmt::runtime(code < 0x80 ? "\\x{:02x}" : "\\u{:04x}"), code);
  }
}

void append_json_escape(std::string& out, std::uint32_t code) {
  if (code > 0xFFFF) {
    code -= 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", 0xD800 + (code >> 10U));
    code = 0xDC00 + (code & 0x3FFU);
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Char next = first_char(text.substr(at));
    if (at + next.bytes > limit) return out + "...";
    if (!next.valid) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint32_t>(next.value));
    } else if (is_hostile(next.value)) {
      append_escaped(out, static_cast<std::uint32_t>(next.value));
    } else {
      out += text.substr(at, next.bytes);
    }
    at += next.bytes;
  }
  return out;
}

std::string tame_json(std::string_view document) {
  std::string out;
  out.reserve(document.size());
  while (!document.empty()) {
    const Utf8Char character = first_char(document);
    const bool is_line_feed = character.value == '\n';
    const bool opens_command = document.starts_with("##");
    if (!character.valid) {
      out += "\\ufffd";
    } else if (!is_line_feed && (is_hostile(character.value) || opens_command)) {
      append_json_escape(out, static_cast<std::uint32_t>(character.value));
    } else {
      out.append(document.substr(0, character.bytes));
    }
    document.remove_prefix(character.bytes);
  }
  return out;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last `*` seen
  std::size_t resume = 0;                     // where in the text that `*` currently ends
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

/// Optimal string alignment distance, with three rows of the table alive.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before_previous(right.size() + 1);
  std::vector<std::size_t> previous(right.size() + 1);
  std::vector<std::size_t> current(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[right.size()];
}

}  // namespace

std::optional<std::string_view> near_miss(std::string_view word,
                                          std::span<const std::string_view> candidates) {
  constexpr std::size_t kForgivenShare = 3;
  const std::string wanted = lower(word);
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t allowed = std::max<std::size_t>(1, candidate.size() / kForgivenShare);
    // Also keeps the table small when the word is a megabyte of somebody's mistake.
    if (wanted.size() > candidate.size() + allowed) continue;
    const std::size_t distance = edit_distance(wanted, lower(candidate));
    if (distance <= allowed && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string utc_now() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace repro_check::core
