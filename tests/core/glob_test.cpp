// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/text/text.h"

namespace repro_check::core {
namespace {

TEST_CASE("patterns that match") {
  CHECK(glob_match("", ""));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("*", "aten::add.Tensor"));
  CHECK(glob_match("aten::*", "aten::add"));
  CHECK(glob_match("*dropout*", "aten::feature_dropout_"));
  CHECK(glob_match("encoder.?.*", "encoder.3.linear1"));
  CHECK(glob_match("a*b*c", "a-b-b-c"));
  CHECK(glob_match("**a", "bba"));
}

TEST_CASE("patterns that do not") {
  CHECK_FALSE(glob_match("", "a"));
  CHECK_FALSE(glob_match("?", ""));
  CHECK_FALSE(glob_match("aten::add", "aten::add_"));
  CHECK_FALSE(glob_match("aten::add", "xaten::add"));
  CHECK_FALSE(glob_match("encoder.?", "encoder.10"));
  CHECK_FALSE(glob_match("a*b", "a-b-c"));
  CHECK_FALSE(glob_match("[a]", "a"));
}

/// The definition itself, exponential, as the oracle.
bool reference(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return reference(pattern.substr(1), text) ||
           (!text.empty() && reference(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         reference(pattern.substr(1), text.substr(1));
}

std::string nth_word(std::string_view letters, std::size_t number, std::size_t length) {
  std::string word;
  for (std::size_t i = 0; i < length; ++i, number /= letters.size()) {
    word += letters[number % letters.size()];
  }
  return word;
}

TEST_CASE("every pattern of up to four characters agrees with the definition") {
  for (std::size_t p = 0; p < 256; ++p) {
    for (std::size_t t = 0; t < 32; ++t) {
      const std::string pattern = nth_word("a*?b", p, p % 5);
      const std::string text = nth_word("ab", t, t % 6);
      CAPTURE(pattern);
      CAPTURE(text);
      CHECK(glob_match(pattern, text) == reference(pattern, text));
    }
  }
}

TEST_CASE("a pattern made to be slow is not") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  CHECK_FALSE(glob_match(pattern + "b", std::string(20'000, 'a')));
}

TEST_CASE("a text is split at every separator") {
  using Parts = std::vector<std::string_view>;
  CHECK(split("one", ' ') == Parts{"one"});
  CHECK(split("a,,b,", ',') == Parts{"a", "", "b", ""});
  CHECK(split("", ',') == Parts{""});
}

}  // namespace
}  // namespace repro_check::core
