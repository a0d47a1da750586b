// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace repro_check::core {

/// The character at the front of a text. An invalid sequence is one byte long and not valid.
struct Utf8Char {
  char32_t value = 0;
  std::size_t bytes = 0;
  bool valid = false;
};

/// Strict UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
/// @param text  not empty
Utf8Char first_char(std::string_view text) noexcept;

/// Whether `text` is well-formed UTF-8 throughout.
bool is_utf8(std::string_view text) noexcept;

/// Whether a character must not reach a terminal as it is: it moves the cursor, starts an escape
/// sequence, ends a line, reorders the text around it or cannot be seen at all.
bool is_hostile(char32_t character) noexcept;

/// `text` as it can be shown on one line of a terminal, whoever wrote it: control characters (C0,
/// C1, DEL), line separators, bidirectional and invisible characters as `\n`, `\x1b`, `\u202e`;
/// bytes that are not UTF-8 as `\xff`; all else as it is. A backslash stays one: this is for
/// reading, not for parsing.
/// @param limit  bytes of `text` shown at most; what was cut is marked by `...`
std::string printable(std::string_view text,
                      std::size_t limit = std::numeric_limits<std::size_t>::max());

/// A JSON document whose strings hold nothing that could steer a terminal or a CI log. What JSON
/// demands to be escaped are the C0 controls; a terminal obeys C1 and the bidirectional ones as
/// well, what has no width hides, and the GitHub runner obeys `##[` anywhere in a line. All of them
/// can only stand in strings, where \uXXXX means the same text; a byte that is not UTF-8 becomes
/// U+FFFD.
std::string tame_json(std::string_view document);

/// The word between bars at `place`, counted from 0: a short table of names.
constexpr std::string_view word_at(std::string_view words, std::size_t place) noexcept {
  for (; place > 0; --place) words.remove_prefix(words.find('|') + 1);
  return words.substr(0, words.find('|'));
}

/// Without the blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " ") noexcept;

/// ASCII only: the names of this project are.
std::string lower(std::string_view text);

/// What stands between separators, one more than there are of these; each may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The word of an enumerator, of an enumeration that counts from 0 and has all its words, in their
/// order, from words_of().
template <typename Enum>
constexpr std::string_view name_of(Enum value) noexcept {
  std::string_view words = words_of(value);
  for (auto place = static_cast<std::size_t>(value); place > 0; --place) {
    words.remove_prefix(words.find(' ') + 1);
  }
  return words.substr(0, words.find(' '));
}

/// The enumerator of which this is the name.
template <typename Enum>
std::optional<Enum> parse_name(std::string_view name) {
  const std::vector<std::string_view> words = split(words_of(Enum{}), ' ');
  const auto found = std::ranges::find(words, name);
  return found == words.end() ? std::nullopt
                              : std::optional(static_cast<Enum>(found - words.begin()));
}

/// Whether the whole of `text` matches `pattern`: `*` any run of characters, `?` one character, all
/// else itself. Time is at most proportional to the product of the lengths; nothing recurses.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// The candidate a person most likely meant by `word`: the one fewest edits away (insertion,
/// deletion, replacement, neighbours swapped; case counts as nothing), if that is at most a third
/// of its length, and never less than one edit is forgiven. Ties go to the first.
/// @return borrowed from `candidates`; empty when nothing is near
std::optional<std::string_view> near_miss(std::string_view word,
                                          std::span<const std::string_view> candidates);

/// The whole of a text as a decimal number; empty where it is none, or one that does not fit.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// `2026-01-31T23:59:59Z`, in seconds.
std::string utc_now();

}  // namespace repro_check::core
