// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/key_table.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

namespace repro_check::comparators::detail {
namespace {

TEST_CASE("texts get one number each, whatever they hold and however many there are") {
  KeyTable table;
  std::mt19937 random(7);
  std::map<std::string, std::uint32_t> known;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 4, '\0');
    for (char& c : text) c = static_cast<char>(random() % 16);
    const std::uint32_t id = table.text_id(text);
    const auto [found, is_new] = known.try_emplace(text, id);
    REQUIRE(found->second == id);
    if (is_new) REQUIRE(id == known.size() - 1);
  }
  CHECK(known.size() > 3'000);
  CHECK(table.text_id("") == known.at(""));
}

TEST_CASE("keys are equal where every part of them is") {
  KeyTable table;
  std::mt19937 random(8);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t>
      known;
  for (int i = 0; i < 100'000; ++i) {
    core::OpRecord head;
    head.rank = random() % 8;
    head.step = random() % 8;
    const std::uint32_t module = random() % 8;
    const std::uint32_t op = random() % 8;
    const std::uint32_t id = table.intern(head, module, op);
    const auto found = known.try_emplace({head.rank, head.step, module, op}, id).first;
    REQUIRE(found->second == id);
  }
  CHECK(known.size() == 8 * 8 * 8 * 8);
  core::OpRecord other;
  other.lane = 1;
  CHECK(table.intern(other, 0, 0) == known.size());
}

}  // namespace
}  // namespace repro_check::comparators::detail
