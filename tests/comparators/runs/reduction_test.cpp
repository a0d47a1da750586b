// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/reduction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace repro_check::comparators {
namespace {

ItemSet first_items(std::size_t count) {
  ItemSet items(count);
  std::iota(items.begin(), items.end(), std::size_t{0});
  return items;
}

bool holds(const ItemSet& items, const ItemSet& part) { return std::ranges::includes(items, part); }

ItemSet minus(ItemSet items, std::size_t item) {
  std::erase(items, item);
  return items;
}

/// An oracle that remembers what it was asked.
class Asked {
 public:
  explicit Asked(Trial oracle) : oracle_(std::move(oracle)) {}

  Reduction reduce_all(std::size_t count) {
    return reduce(first_items(count), [this](const ItemSet& items) {
      ++calls_;
      CHECK(std::ranges::is_sorted(items));
      CHECK(seen_.insert(items).second);
      return oracle_(items);
    });
  }

  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
  TrialOutcome operator()(const ItemSet& items) const { return oracle_(items); }

 private:
  Trial oracle_;
  std::set<ItemSet> seen_;
  std::uint64_t calls_ = 0;
};

/// No item can be taken away, the bound on the number of trials holds, and the result shows it.
void check_minimal(const Asked& asked, const Reduction& reduction, std::size_t count) {
  CHECK(reduction.trials == asked.calls());
  CHECK(asked.calls() <= count * count + 3 * count);
  const bool all = reduction.items.size() == count;
  CHECK((all || asked(reduction.items) == TrialOutcome::kShows));
  if (reduction.items.size() < 2) return;
  bool unresolved = false;
  for (const std::size_t item : reduction.items) {
    const TrialOutcome outcome = asked(minus(reduction.items, item));
    CHECK(outcome != TrialOutcome::kShows);
    unresolved = unresolved || outcome == TrialOutcome::kUnresolved;
  }
  CHECK(reduction.is_certain == !unresolved);
}

ItemSet random_part(std::mt19937& engine, std::size_t count, unsigned one_in) {
  ItemSet part;
  for (std::size_t item = 0; item < count; ++item) {
    if (engine() % one_in == 0) part.push_back(item);
  }
  return part;
}

TEST_CASE("where certain items are needed together, they are what is left") {
  std::mt19937 engine(20261122);
  for (int round = 0; round < 400; ++round) {
    const std::size_t count = 1 + engine() % 40;
    ItemSet needed = random_part(engine, count, 1 + static_cast<unsigned>(engine() % 12));
    if (needed.empty()) needed.push_back(engine() % count);
    CAPTURE(round);
    Asked asked([&](const ItemSet& items) {
      return holds(items, needed) ? TrialOutcome::kShows : TrialOutcome::kPasses;
    });
    const Reduction reduction = asked.reduce_all(count);
    CHECK(reduction.items == needed);
    check_minimal(asked, reduction, count);
  }
}

TEST_CASE("of several ways one is left") {
  std::mt19937 engine(7);
  for (int round = 0; round < 400; ++round) {
    const std::size_t count = 2 + engine() % 30;
    std::vector<ItemSet> ways;
    for (std::uint64_t i = 1 + engine() % 4; i > 0; --i)
      ways.push_back(random_part(engine, count, 4));
    for (ItemSet& way : ways) {
      if (way.empty()) way.push_back(engine() % count);
    }
    CAPTURE(round);
    Asked asked([&](const ItemSet& items) {
      const bool shows =
          std::ranges::any_of(ways, [&](const ItemSet& way) { return holds(items, way); });
      return shows ? TrialOutcome::kShows : TrialOutcome::kPasses;
    });
    const Reduction reduction = asked.reduce_all(count);
    CHECK(std::ranges::find(ways, reduction.items) != ways.end());
    check_minimal(asked, reduction, count);
  }
}

TEST_CASE("an oracle without any order still ends in a set of which no item can go") {
  std::mt19937 engine(99);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = 1 + engine() % 24;
    const std::uint64_t salt = engine();
    const auto shows = static_cast<unsigned>(1 + engine() % 8);
    CAPTURE(round);
    Asked asked([&](const ItemSet& items) {
      std::uint64_t hash = salt;
      for (const std::size_t item : items) hash = (hash ^ item) * 0x9E37'79B9'7F4A'7C15U + 1;
      const auto drawn = static_cast<unsigned>((hash >> 40U) % 16U);
      if (drawn < shows) return TrialOutcome::kShows;
      return drawn > 12 ? TrialOutcome::kUnresolved : TrialOutcome::kPasses;
    });
    check_minimal(asked, asked.reduce_all(count), count);
  }
}

TEST_CASE("one of a thousand is found in few trials") {
  for (const std::size_t culprit : {std::size_t{0}, std::size_t{511}, std::size_t{999}}) {
    Asked asked([&](const ItemSet& items) {
      return holds(items, {culprit}) ? TrialOutcome::kShows : TrialOutcome::kPasses;
    });
    CHECK(asked.reduce_all(1000).items == ItemSet{culprit});
    CHECK(asked.calls() <= 20);
  }
}

TEST_CASE("what cannot be reduced stays whole, and a single item is not tried") {
  Asked all([](const ItemSet& items) {
    return items.size() == 5 ? TrialOutcome::kShows : TrialOutcome::kUnresolved;
  });
  const Reduction reduction = all.reduce_all(5);
  CHECK(reduction.items == first_items(5));
  CHECK_FALSE(reduction.is_certain);
  Asked one([](const ItemSet&) { return TrialOutcome::kPasses; });
  CHECK(one.reduce_all(1).items == ItemSet{0});
  CHECK(one.calls() == 0);
}

}  // namespace
}  // namespace repro_check::comparators
