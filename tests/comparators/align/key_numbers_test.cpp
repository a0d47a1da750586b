// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comparators/align/pairing.h"
#include "core/system/memory.h"

namespace repro_check::comparators {
namespace {

TEST_CASE("keys are equal where every part of them is") {
  std::mt19937 random(8);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::string, std::string>, core::Digest> known;
  std::set<core::Digest> distinct;
  for (int i = 0; i < 100'000; ++i) {
    core::OpRecord head;
    head.rank = random() % 8;
    head.step = random() % 8;
    const std::string module(random() % 8, 'm');
    const std::string op(random() % 8, 'm');
    const core::Digest key = key_of(head, digest_of_name(module), digest_of_name(op));
    const auto [found, is_new] = known.try_emplace({head.rank, head.step, module, op}, key);
    REQUIRE(found->second == key);
    if (is_new) REQUIRE(distinct.insert(key).second);
  }
  CHECK(known.size() == 8 * 8 * 8 * 8);
  const core::Digest none = digest_of_name("");
  core::OpRecord other;
  other.lane = 1;
  CHECK(distinct.insert(key_of(other, none, none)).second);
  other.depth = 1;
  CHECK(distinct.insert(key_of(other, none, none)).second);
  other.phase = core::Phase::kBackward;
  CHECK(distinct.insert(key_of(other, none, none)).second);
}

struct LowHalf {
  std::size_t operator()(const core::Digest& key) const noexcept { return key.low; }
};

TEST_CASE("numbers are those of the keys, without a gap") {
  std::mt19937_64 random(9);
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const std::uint64_t kinds = 1 + random() % 3000;
    core::Numbering<core::Digest, LowHalf> numbers;
    std::map<core::Digest, std::uint32_t> known;
    for (std::size_t i = random() % 8000; i > 0; --i) {
      const core::Digest key = digest_of_name(std::to_string(random() % kinds));
      REQUIRE(numbers.find(key).has_value() == known.contains(key));
      const auto [place, is_new] = known.try_emplace(key, static_cast<std::uint32_t>(known.size()));
      REQUIRE(numbers.number_of(key) == place->second);
      REQUIRE(numbers.size() == known.size());
    }
  }
}

}  // namespace
}  // namespace repro_check::comparators
