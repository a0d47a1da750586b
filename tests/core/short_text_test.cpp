// SPDX-License-Identifier: Apache-2.0
#include "core/text/short_text.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

namespace repro_check::core {
namespace {

constexpr std::size_t kLongest = 40;

/// No two characters that stand less than 26 apart are the same.
std::string text_of(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

}  // namespace

TEST_CASE("texts are the same when every character is") {
  for (std::size_t size = 0; size <= kLongest; ++size) {
    CAPTURE(size);
    const std::string text = text_of(size);
    CHECK(same_text(text, std::string(text)));
    CHECK_FALSE(same_text(text, text_of(size + 1)));
    for (std::size_t at = 0; at < size; ++at) {
      CAPTURE(at);
      std::string other = text;
      other[at] = '!';
      CHECK_FALSE(same_text(text, other));
    }
  }
}

TEST_CASE("a text is set to what it was not") {
  std::string text = "cpu";
  set_text(text, "cpu");
  CHECK(text == "cpu");
  set_text(text, "cuda:0");
  CHECK(text == "cuda:0");
  set_text(text, "");
  CHECK(text.empty());
}

}  // namespace repro_check::core
