// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/text/text.h"

namespace repro_check::core {
namespace {

using namespace std::string_literals;

TEST_CASE("UTF-8 is read strictly") {
  CHECK(first_char("\xc3\xa9").value == 0xE9);
  CHECK(first_char("\xf0\x9f\x98\x80").value == 0x1F600);
  for (const char* broken :
       {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x80"}) {
    CHECK_FALSE(first_char(broken).valid);
    CHECK(first_char(broken).bytes == 1);
  }
}

TEST_CASE("UTF-8 is told from what only looks like it") {
  CHECK(is_utf8("größe 模型 🙂"));
  CHECK(is_utf8("\0"s));
  CHECK_FALSE(is_utf8("\xe2\x80"));
  CHECK_FALSE(is_utf8("\xe0\x80\x80"));
  CHECK_FALSE(is_utf8("\xf0\x8f\xbf\xbf"));
  CHECK_FALSE(is_utf8("\x80"));
}

}  // namespace
}  // namespace repro_check::core
