// SPDX-License-Identifier: Apache-2.0
// weights-never-moved: parameters that get gradients, or are in an optimizer, and stay as they are.
#include <algorithm>
#include <string>
#include <utility>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// Those that stay for the same reason on every rank.
std::vector<std::string> names_of(std::span<const AuditShare> shares, StillReason reason) {
  std::vector<std::string> names;
  for (const StillParameter& still : shares.front().still) {
    const bool on_all = std::ranges::all_of(shares, [&](const AuditShare& share) {
      return std::ranges::binary_search(share.still, StillParameter{still.name, reason});
    });
    if (still.reason == reason && on_all) names.push_back(still.name);
  }
  return names;
}

}  // namespace

std::vector<Finding> find_never_moved(std::span<const AuditShare> shares) {
  using Weight = Finding::Weight;
  std::vector<Finding> findings;
  auto unmoved = names_of(shares, StillReason::kUnmoved);
  const AuditShare& first = shares.front();
  if (!unmoved.empty() && unmoved.size() == first.parameters) {
    findings.push_back(Finding{FindingId::kWeightsNeverMoved, Weight::kProof}
                           .with("steps", first.steps)
                           .with("gradients", true));
    unmoved.clear();
  }
  auto in_none = names_of(shares, StillReason::kNoOptimizer);
  auto without = names_of(shares, StillReason::kNoGradient);
  const auto put = [&](FindingId id, Weight weight, std::vector<std::string>& names) {
    if (!names.empty()) findings.push_back(Finding{id, weight}.with("names", std::move(names)));
  };
  put(FindingId::kInNoOptimizer, Weight::kProof, in_none);
  put(FindingId::kWithoutGradient, Weight::kSuspicion, without);
  put(FindingId::kNotMoved, Weight::kSuspicion, unmoved);
  return findings;
}

}  // namespace repro_check::comparators
