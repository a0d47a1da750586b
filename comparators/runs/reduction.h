// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace repro_check::comparators {

/// What a trial with some of the items says.
enum class TrialOutcome {
  kShows,       ///< what is looked for
  kPasses,      ///< without it
  kUnresolved,  ///< nothing: it could not be carried out, or contradicts itself
};

/// Item numbers, ascending and distinct.
using ItemSet = std::vector<std::size_t>;

/// Carries one trial out. Asked once for each set.
using Trial = std::function<TrialOutcome(const ItemSet&)>;

struct Reduction {
  ItemSet items;             ///< the trial with these shows it
  std::uint64_t trials = 0;  ///< asked for
  /// Some trial with one item less was unresolved: whether that item is needed is not known.
  bool is_certain = true;
};

/// Delta debugging: the items of `all` down to a set of which none can be taken away (1-minimal): a
/// trial without any one of them does not show what is looked for. Another set, a smaller one even,
/// may exist. Asks at most n^2 + 3n times, and about 2 log2 n times where one item is to blame.
/// @param all    the trial with all of them shows it, which is not asked again
/// @param trial  may be any function of the set, monotone or not
/// Source: A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE
/// 28 (2002), algorithm ddmin.
Reduction reduce(const ItemSet& all, const Trial& trial);

}  // namespace repro_check::comparators
