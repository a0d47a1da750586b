// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/align/pairing.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// One step of the comparison, in the order in which calls ended: a matched pair, or a record of
/// one side alone (the other is kUnmatched).
struct Event {
  std::uint32_t baseline = kUnmatched;
  std::uint32_t candidate = kUnmatched;

  [[nodiscard]] bool matched() const noexcept {
    return baseline != kUnmatched && candidate != kUnmatched;
  }
};

/// All records of both dumps that are compared. Between two matched pairs the missing ones come
/// before the extra ones.
core::LargeVector<Event> order_events(const Pairing& pairing);

/// Unmatched records between two matched pairs.
struct Hunk {
  core::LargeVector<std::uint32_t> missing;  ///< baseline op indices
  core::LargeVector<std::uint32_t> extra;    ///< candidate op indices
  std::optional<Event> before;               ///< the last matched pair
  bool rejoined = false;                     ///< a matched pair follows

  [[nodiscard]] bool empty() const noexcept { return missing.empty() && extra.empty(); }
};

/// Cuts a hunk at the borders of modules where both sides went through the same ones: two
/// neighbouring modules, each with an operator replaced, are two findings.
std::vector<Hunk> split_by_module(const Hunk& hunk,
                                  const core::DumpSource& baseline,
                                  const core::DumpSource& candidate,
                                  const NameRewriter& names);

}  // namespace repro_check::comparators::detail
