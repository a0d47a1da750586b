// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/align.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace repro_check::comparators::align_test {
namespace {

Alignment align(std::span<const std::uint32_t> baseline, std::span<const std::uint32_t> candidate) {
  KeyScratch scratch;
  return align(baseline, candidate, scratch);
}

using Keys = std::vector<std::uint32_t>;

/// The same numbers with every library: distributions are not portable, the engine is.
struct Random {
  explicit Random(std::uint32_t seed) : engine(seed) {}
  std::uint32_t next() { return static_cast<std::uint32_t>(engine()); }
  std::mt19937 engine;
};

Keys keys_of(const std::string& letters) { return {letters.begin(), letters.end()}; }

/// Baseline letters that have no counterpart, then candidate letters, as `B|x`.
std::string unmatched(const std::string& baseline, const std::string& candidate) {
  const Alignment alignment = align(keys_of(baseline), keys_of(candidate));
  std::string missing;
  std::string extra = candidate;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    if (alignment.candidate_of[i] == kUnmatched) {
      missing += baseline[i];
    } else {
      extra[alignment.candidate_of[i]] = ' ';
    }
  }
  extra.erase(std::remove(extra.begin(), extra.end(), ' '), extra.end());
  return missing + "|" + extra;
}

/// The textbook table, for small sequences.
std::size_t longest_common(const Keys& left, const Keys& right) {
  std::vector<std::vector<std::size_t>> table(left.size() + 1,
                                              std::vector<std::size_t>(right.size() + 1, 0));
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      table[i][j] = left[i - 1] == right[j - 1] ? table[i - 1][j - 1] + 1
                                                : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  return table.back().back();
}

/// Pairs hold equal keys, go up on both sides, and are as many as the alignment says.
void check_valid(const Keys& left, const Keys& right, const Alignment& alignment) {
  REQUIRE(alignment.candidate_of.size() == left.size());
  std::int64_t last = -1;
  std::uint64_t matched = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::uint32_t other = alignment.candidate_of[i];
    if (other == kUnmatched) continue;
    REQUIRE(other < right.size());
    REQUIRE(left[i] == right[other]);
    REQUIRE(static_cast<std::int64_t>(other) > last);
    last = other;
    ++matched;
  }
  CHECK(matched == alignment.matched);
  // The last search may end with one walk over what is left, and no more.
  CHECK(most_work(left.size() + right.size()) == 32 * (left.size() + right.size()) + 1'000'000);
  CHECK(alignment.work <= most_work(left.size() + right.size()) + left.size() + right.size());
}

TEST_CASE("equal streams match by position, one step a pair") {
  const Keys keys = keys_of("ABCABCABC");
  const Alignment alignment = align(keys, keys);
  CHECK(alignment.matched == 9);
  CHECK(alignment.work == 9);
  for (std::uint32_t i = 0; i < 9; ++i) CHECK(alignment.candidate_of[i] == i);
  CHECK(align({}, keys).matched == 0);
  CHECK(align(keys, {}).matched == 0);
}

TEST_CASE("what is missing is missing where it is") {
  CHECK(unmatched("ABCABCABC", "ABCACABC") == "B|");
  CHECK(unmatched("ABC", "ABCD") == "|D");
  CHECK(unmatched("ABCD", "AXCD") == "B|X");
  CHECK(unmatched("ALB", "ATMB") == "L|TM");
  CHECK(unmatched("QKV", "KQV").size() == 3);
  CHECK(unmatched("ABC", "XYZ") == "ABC|XYZ");
}

TEST_CASE("of unequal trip counts the last iterations are the extra ones") {
  const Keys left = keys_of("ABABABT");
  const Keys right = keys_of("ABABABABT");
  const Alignment alignment = align(left, right);
  CHECK(alignment.matched == 7);
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(alignment.candidate_of[i] == i);
  CHECK(alignment.candidate_of[6] == 8);
}

TEST_CASE("small cases are longest common subsequences") {
  Random random(7);
  for (int round = 0; round < 600; ++round) {
    const std::uint32_t letters = 1 + random.next() % 8;
    Keys left(random.next() % 30);
    Keys right(random.next() % 30);
    for (auto& key : left) key = random.next() % letters;
    for (auto& key : right) key = random.next() % letters;
    const Alignment alignment = align(left, right);
    check_valid(left, right, alignment);
    CHECK(alignment.matched == longest_common(left, right));
    CHECK(alignment.gave_up == false);
  }
}

TEST_CASE("random edits of a trace lose little more than what was edited") {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    Keys left;
    const std::uint32_t layers = 1 + random.next() % 12;
    for (std::uint32_t step = 0; step < 40; ++step) {
      for (std::uint32_t key = 0; key < 4 * layers; ++key) left.push_back(key);
    }
    Keys right;
    std::size_t edits = 0;
    for (const std::uint32_t key : left) {
      switch (random.next() % 60) {
        case 0:
          ++edits;
          break;
        case 1:
          ++edits;
          right.push_back(key);
          right.push_back(random.next() % 100);
          break;
        default:
          right.push_back(key);
      }
    }
    const Alignment alignment = align(left, right);
    check_valid(left, right, alignment);
    CHECK(alignment.matched + edits >= left.size());
  }
}

TEST_CASE("pairs say what found them") {
  const auto how = [](const std::string& left, const std::string& right, std::size_t i) {
    return align(keys_of(left), keys_of(right)).how.at(i);
  };
  CHECK(how("ABCDE", "AXCYE", 0) == MatchedBy::kPosition);
  CHECK(how("ABCDE", "AXCYE", 1) == MatchedBy::kNone);
  CHECK(how("ABCDE", "AXCYE", 2) == MatchedBy::kLcs);
  CHECK(how("ABCDE", "AXCYE", 4) == MatchedBy::kPosition);

  // More than 256 differences, and nothing in common but what is frequent.
  Keys left;
  Keys right;
  Random random(5);
  for (std::uint32_t i = 0; i < 4'000; ++i) {
    left.push_back(random.next() % 3);
    right.push_back(random.next() % 3);
  }
  left.insert(left.begin(), 3);  // the one unique key, where it would cost all others
  right.insert(right.end(), 3);
  const Alignment cut = align(left, right);
  check_valid(left, right, cut);
  CHECK(std::ranges::count(cut.how, MatchedBy::kPartial) > 1'000);
  // One key is as frequent on both sides: the streams are split there.
  left.insert(left.begin() + 2'000, 9);
  right.insert(right.begin() + 2'100, 9);
  left.erase(left.begin());
  right.pop_back();
  const Alignment split = align(left, right);
  check_valid(left, right, split);
  CHECK(split.how[1'999] == MatchedBy::kAnchor);
}

TEST_CASE("work is bounded on hostile streams") {
  constexpr std::uint32_t kCount = 200'000;
  Keys up(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) up[i] = i;
  Keys down(up.rbegin(), up.rend());
  check_valid(up, down, align(up, down));

  Keys apart(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) apart[i] = kCount + i;
  const Alignment none = align(up, apart);
  check_valid(up, apart, none);
  CHECK(none.matched == 0);
  CHECK_FALSE(none.gave_up);

  const Keys same(kCount, 7);
  const Keys fewer(kCount - kCount / 3, 7);
  const Alignment alike = align(same, fewer);
  check_valid(same, fewer, alike);
  CHECK(alike.matched == fewer.size());
  CHECK(alike.work == fewer.size());

  Random random(3);
  Keys left(kCount);
  Keys right(kCount);
  for (auto& key : left) key = random.next() % 2;
  for (auto& key : right) key = random.next() % 2;
  const Alignment two_keys = align(left, right);
  check_valid(left, right, two_keys);
  CHECK(two_keys.matched > kCount / 4);

  Keys shuffled = up;
  std::shuffle(shuffled.begin(), shuffled.end(), random.engine);
  check_valid(up, shuffled, align(up, shuffled));
}

}  // namespace
}  // namespace repro_check::comparators::align_test
