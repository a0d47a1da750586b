// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/key_table.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

namespace repro_check::comparators::detail {
namespace {

TEST_CASE("keys are equal where every part of them is") {
  KeyTable table;
  std::mt19937 random(8);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::string, std::string>, std::uint32_t> known;
  for (int i = 0; i < 100'000; ++i) {
    core::OpRecord head;
    head.rank = random() % 8;
    head.step = random() % 8;
    const std::string module(random() % 8, 'm');
    const std::string op(random() % 8, 'm');
    const std::uint32_t id =
        table.intern(head, KeyTable::digest_of(module), KeyTable::digest_of(op));
    const auto [found, is_new] = known.try_emplace({head.rank, head.step, module, op}, id);
    REQUIRE(found->second == id);
    if (is_new) REQUIRE(id == known.size() - 1);
  }
  CHECK(known.size() == 8 * 8 * 8 * 8);
  const core::Digest none = KeyTable::digest_of("");
  auto next = static_cast<std::uint32_t>(known.size());
  core::OpRecord other;
  other.lane = 1;
  CHECK(table.intern(other, none, none) == next++);
  other.depth = 1;
  CHECK(table.intern(other, none, none) == next++);
  other.phase = core::Phase::kBackward;
  CHECK(table.intern(other, none, none) == next);
}

}  // namespace
}  // namespace repro_check::comparators::detail
