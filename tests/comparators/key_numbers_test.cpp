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

#include "comparators/align/record_keys.h"

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

/// Some of `kinds` keys, in any order.
Keys some_keys(std::mt19937_64& random, std::size_t count, std::uint64_t kinds) {
  Keys keys;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t kind = random() % kinds;
    keys.push_back(digest_of_name(std::to_string(kind)));
  }
  return keys;
}

TEST_CASE("numbers are those of the keys, however many passes they take") {
  std::mt19937_64 random(9);
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const std::uint64_t kinds = 1 + random() % 3000;
    const Keys baseline = some_keys(random, random() % 4000, kinds);
    const Keys candidate = some_keys(random, random() % 4000, kinds);
    const std::size_t at_once = std::size_t{1} << (random() % 14);
    CAPTURE(at_once);
    const KeyNumbers numbers = number_keys(baseline, candidate, at_once);
    REQUIRE(numbers.baseline.size() == baseline.size());
    REQUIRE(numbers.candidate.size() == candidate.size());
    std::map<core::Digest, std::uint32_t> number_of;
    std::set<std::uint32_t> used;
    const auto check = [&](const core::Digest& key, std::uint32_t number) {
      const auto [known, is_new] = number_of.try_emplace(key, number);
      REQUIRE(known->second == number);
      if (is_new) REQUIRE(used.insert(number).second);
    };
    for (std::size_t i = 0; i < baseline.size(); ++i) check(baseline[i], numbers.baseline[i]);
    for (std::size_t i = 0; i < candidate.size(); ++i) check(candidate[i], numbers.candidate[i]);
    CHECK(numbers.distinct == used.size());
    CHECK((used.empty() || *used.rbegin() == used.size() - 1));
  }
}

}  // namespace
}  // namespace repro_check::comparators
