// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/reduction.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace repro_check::comparators {
namespace {

/// Cuts a set into parts of nearly equal size. @param count  at most the set's size, at least 1
std::vector<ItemSet> cut(const ItemSet& items, std::size_t count) {
  std::vector<ItemSet> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = begin + (items.size() - begin) / (count - i);
    parts.emplace_back(items.begin() + static_cast<std::ptrdiff_t>(begin),
                       items.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return parts;
}

ItemSet without(const ItemSet& items, const ItemSet& part) {
  ItemSet rest;
  std::ranges::set_difference(items, part, std::back_inserter(rest));
  return rest;
}

class Reducer {
 public:
  explicit Reducer(const Trial& trial) : trial_(trial) {}

  Reduction run(ItemSet items) {
    std::size_t parts = 2;
    while (items.size() > 1) {
      parts = std::min(parts, items.size());
      const std::vector<ItemSet> cuts = cut(items, parts);
      if (auto part = first_that_shows(cuts)) {
        items = std::move(*part);
        parts = 2;
      } else if (auto rest = first_rest_that_shows(items, cuts)) {
        items = std::move(*rest);
        parts = std::max<std::size_t>(parts - 1, 2);
      } else if (parts < items.size()) {
        parts *= 2;
      } else {
        break;
      }
    }
    return conclude(std::move(items));
  }

 private:
  TrialOutcome ask(const ItemSet& items) {
    const auto known = known_.find(items);
    if (known != known_.end()) return known->second;
    return known_[items] = trial_(items);
  }

  std::optional<ItemSet> first_that_shows(const std::vector<ItemSet>& sets) {
    for (const ItemSet& set : sets) {
      if (ask(set) == TrialOutcome::kShows) return set;
    }
    return std::nullopt;
  }

  std::optional<ItemSet> first_rest_that_shows(const ItemSet& items,
                                               const std::vector<ItemSet>& cuts) {
    // Of two parts each is the rest of the other.
    if (cuts.size() <= 2) return std::nullopt;
    std::vector<ItemSet> rests;
    rests.reserve(cuts.size());
    for (const ItemSet& part : cuts) rests.push_back(without(items, part));
    return first_that_shows(rests);
  }

  Reduction conclude(ItemSet items) {
    Reduction reduction;
    // A single item is needed if nothing shows without any, which is for the caller to know.
    if (items.size() > 1) {
      for (const std::size_t item : items) {
        if (ask(without(items, {item})) == TrialOutcome::kUnresolved) reduction.is_certain = false;
      }
    }
    reduction.items = std::move(items);
    reduction.trials = known_.size();
    return reduction;
  }

  const Trial& trial_;
  std::map<ItemSet, TrialOutcome> known_;
};

}  // namespace

Reduction reduce(const ItemSet& all, const Trial& trial) { return Reducer(trial).run(all); }

}  // namespace repro_check::comparators
