// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/subarray.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"

namespace repro_check::core {
namespace {

using Positions = std::vector<std::uint64_t>;

Positions positions(const Subarray& part) {
  Positions found;
  for (std::uint64_t i = 0; i < part.elements(); ++i) found.push_back(part.flat(i));
  return found;
}

Subarray shown(const std::string& text, std::vector<std::int64_t> shape) {
  return {shape, parse_subscript(text)};
}

struct Line {
  const char* text;
  Positions expected;
};

}  // namespace

TEST_CASE("one dimension is cut as Python cuts list(range(6))") {
  const std::vector<Line> lines{{":", {0, 1, 2, 3, 4, 5}},
                                {"::", {0, 1, 2, 3, 4, 5}},
                                {"0", {0}},
                                {"-1", {5}},
                                {"3:", {3, 4, 5}},
                                {"-2:", {4, 5}},
                                {":3", {0, 1, 2}},
                                {":-3", {0, 1, 2}},
                                {"::2", {0, 2, 4}},
                                {"::-1", {5, 4, 3, 2, 1, 0}},
                                {"5::-2", {5, 3, 1}},
                                {"1:4:2", {1, 3}},
                                {"4:1", {}},
                                {"9:", {}},
                                {"-99:99", {0, 1, 2, 3, 4, 5}},
                                {"99:-99:-1", {5, 4, 3, 2, 1, 0}},
                                {":0", {}},
                                {"0:0", {}},
                                {"::7", {0}},
                                {"::-7", {5}},
                                {"-1:-6:-2", {5, 3, 1}},
                                {"2:-1", {2, 3, 4}}};
  for (const Line& line : lines) {
    CAPTURE(line.text);
    CHECK(positions(shown(line.text, {6})) == line.expected);
  }
}

TEST_CASE("several dimensions, in brackets or not, with an ellipsis or without") {
  for (const char* text : {"0,:2", "[0,:2]", " [ 0 , :2 ] ", "0,:2,", "0,:2,...", "0,:2,:"}) {
    CAPTURE(text);
    const Subarray part = shown(text, {2, 3, 2});
    CHECK(part.shape() == std::vector<std::int64_t>{2, 2});
    CHECK(positions(part) == Positions{0, 1, 2, 3});
    CHECK_FALSE(part.is_whole());
  }
  CHECK(positions(shown("...,-1", {2, 3, 2})) == Positions{1, 3, 5, 7, 9, 11});
  CHECK(positions(shown("1,...,0", {2, 3, 2})) == Positions{6, 8, 10});
  CHECK(positions(shown("1,2,1", {2, 3, 2})) == Positions{11});
  CHECK(shown("1,2,1", {2, 3, 2}).shape().empty());
  CHECK(positions(shown("::-1,1", {2, 2})) == Positions{3, 1});
}

TEST_CASE("all of a tensor is known to be all") {
  for (const char* text : {"", "[]", ":", "...", "0:2,...", ":,:,:"}) {
    CAPTURE(text);
    CHECK(shown(text, {2, 3, 2}).is_whole());
    CHECK(shown(text, {2, 3, 2}).elements() == 12);
  }
  CHECK(shown("...", {}).elements() == 1);
  CHECK(shown("", {}).is_whole());
  CHECK(shown(":", {0}).elements() == 0);
  CHECK(shown("::2", {0, 4}).shape() == std::vector<std::int64_t>{0, 4});
  CHECK_FALSE(shown("::-1", {3}).is_whole());
}

TEST_CASE("content is taken in the order of the slice") {
  const std::vector<std::uint16_t> values{10, 11, 12, 13, 14, 15};
  std::vector<std::byte> content(12);
  std::memcpy(content.data(), values.data(), 12);
  const std::vector<std::byte> taken = shown(":,::-2", {2, 3}).take(content, 2);
  std::vector<std::uint16_t> expected(4);
  std::memcpy(expected.data(), taken.data(), taken.size());
  CHECK(expected == std::vector<std::uint16_t>{12, 10, 15, 13});
  CHECK_THROWS_AS(shown(":", {2, 3}).take(std::span(content).first(10), 2), Error);
}

TEST_CASE("what a tensor does not have is not comparable, what is no slice is usage") {
  for (const char* text : {"6", "-7", "9223372036854775807", "-9223372036854775808", "0,0"}) {
    CAPTURE(text);
    try {
      shown(text, {6});
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kNotComparable);
    }
  }
  for (const char* text : {",",
                           "[,]",
                           "[",
                           "]",
                           "[0",
                           "0]",
                           "[[0]]",
                           "0,,1",
                           "a",
                           "0:a",
                           "1.5",
                           "1e3",
                           "0x1",
                           "--1",
                           "+-1",
                           "+",
                           "-",
                           "1 2",
                           "::0",
                           "1:2:3:4",
                           "..",
                           "....",
                           "...,...",
                           "None",
                           "9223372036854775808",
                           "::-9223372036854775808",
                           "0\n",
                           "\xff"}) {
    CAPTURE(text);
    try {
      parse_subscript(text);
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK_FALSE(error.hint().empty());
    }
  }
  CHECK_THROWS_AS(parse_subscript(std::string(100'000, ',')), Error);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "0,";
  CHECK_THROWS_AS(parse_subscript(many), Error);
}

TEST_CASE("bounds of any size never show an element that is not there") {
  std::mt19937_64 random(20240702);
  const auto bound = [&]() -> std::string {
    switch (random() % 4) {
      case 0:
        return "";
      case 1:
        return std::to_string(static_cast<std::int64_t>(random()));
      default:
        return std::to_string(static_cast<std::int64_t>(random() % 21) - 10);
    }
  };
  for (int round = 0; round < 5000; ++round) {
    const auto rows = static_cast<std::int64_t>(random() % 5);
    const auto columns = static_cast<std::int64_t>(random() % 8);
    const std::int64_t step = static_cast<std::int64_t>(random() % 9) - 4;
    if (step == 0) continue;
    const std::string text =
        bound() + ":" + bound() + "," + bound() + ":" + bound() + ":" + std::to_string(step);
    CAPTURE(text);
    const Subarray part = shown(text, {rows, columns});
    const auto shape = part.shape();
    REQUIRE(part.elements() == static_cast<std::uint64_t>(shape[0] * shape[1]));
    Positions found = positions(part);
    for (const std::uint64_t position : found) {
      REQUIRE(position < static_cast<std::uint64_t>(rows * columns));
    }
    std::sort(found.begin(), found.end());
    REQUIRE(std::adjacent_find(found.begin(), found.end()) == found.end());
  }
}

}  // namespace repro_check::core
