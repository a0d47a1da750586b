// SPDX-License-Identifier: Apache-2.0
#include "core/text/short_text.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

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

TEST_CASE("a text of any length is copied, and nothing behind it") {
  for (std::size_t size = 0; size <= kLongest; ++size) {
    CAPTURE(size);
    const std::string text = text_of(size);
    std::vector<std::byte> into(kLongest + 1, std::byte{0xee});
    CHECK(copy_text(into.data(), text) == into.data() + size);
    CHECK(std::string(reinterpret_cast<const char*>(into.data()), size) == text);
    for (std::size_t i = size; i < into.size(); ++i) CHECK(into[i] == std::byte{0xee});
  }
}

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
