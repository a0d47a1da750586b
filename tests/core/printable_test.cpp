// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/text/text.h"

namespace repro_check::core {
namespace {

using namespace std::string_literals;

TEST_CASE("ordinary text stays, in any language") {
  CHECK(printable("") == "");
  CHECK(printable("aten::add \\ \"x\"") == "aten::add \\ \"x\"");
  CHECK(printable("größe 模型 🙂") == "größe 模型 🙂");
}

TEST_CASE("what steers a terminal is shown instead of sent") {
  CHECK(printable("a\nb\tc\rd") == "a\\nb\\tc\\rd");
  CHECK(printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(printable("nul\0!"s) == "nul\\x00!");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\u009b31m");
  CHECK(printable("\xe2\x80\xae"
                  "txt.exe") == "\\u202etxt.exe");
  CHECK(printable("\xe2\x80\xa8") == "\\u2028");
}

TEST_CASE("bytes that are not UTF-8 are shown as bytes") {
  CHECK(printable("a\xff") == "a\\xff");
  CHECK(printable("\xc3") == "\\xc3");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("the limit cuts between characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("a\xc3\xb6", 2) == "a...");
}

TEST_CASE("a JSON document means the same without what steers a terminal") {
  CHECK(tame_json("{\n  \"größe\": \"模型 🙂 #1\"\n}") ==
        "{\n  \"größe\": \"模型 🙂 #1\"\n}");
  CHECK(tame_json("\"\xc2\x9b\x7f\"") == "\"\\u009b\\u007f\"");
  CHECK(tame_json("\"\u202e\u2066\u200b\ufeff\"") == "\"\\u202e\\u2066\\u200b\\ufeff\"");
  CHECK(tame_json("\"\U000e0041\"") == "\"\\udb40\\udc41\"");
  CHECK(tame_json("\"##[error]\"") == "\"\\u0023#[error]\"");
  CHECK(tame_json("\"\xff\xc3\"") == "\"\\ufffd\\ufffd\"");
}

}  // namespace
}  // namespace repro_check::core
