// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "comparators/measure/pair_findings.h"
#include "core/system/pinned.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {

/// Elements whose sums are made together; the leaves are added in order. It never straddles a chunk
/// of the digest.
inline constexpr std::size_t kMetricLeaf = 65'536;

/// One leaf of both contents, aligned for its dtype.
struct PairLeaf {
  const std::byte* baseline = nullptr;
  const std::byte* candidate = nullptr;
  std::size_t count = 0;    ///< elements, at most kMetricLeaf
  std::uint64_t first = 0;  ///< index of the first of them
};

/// What one thread measures, leaf by leaf in ascending order. Findings of several threads merge to
/// the same, whoever took which leaf; only the sums of a leaf depend on an order, and those are the
/// caller's to add.
class LeafPass : core::Pinned {
 public:
  explicit LeafPass(const ElementPolicy& of_elements) : policy(of_elements) {}
  virtual ~LeafPass() = default;

  /// Counts the leaf into the findings. @return its sums
  virtual LeafSums measure(const PairLeaf& leaf) = 0;

  /// Fills the metrics that follow from the findings, merged from all threads, with the sums of all
  /// leaves in them.
  virtual void finish() = 0;

  /// Whether a sum of squares left the range of double: then the leaves are gone through twice
  /// more.
  [[nodiscard]] virtual bool needs_rescue() const { return false; }
  using TakePart = std::function<void(std::size_t part, double baseline, double candidate)>;
  /// Calls `take` with all finite pairs of a leaf, real number by real number: a complex element is
  /// two of them.
  virtual void for_each_finite(const PairLeaf& /*leaf*/, const TakePart& /*take*/) const {}

  const ElementPolicy policy;
  PairFindings findings;
};

/// The one for `dtype`, which is not kUnknown.
std::unique_ptr<LeafPass> make_pass(core::Dtype dtype, const ElementPolicy& policy);
/// The same of a real floating dtype that is no float4.
std::unique_ptr<LeafPass> make_float_pass(core::Dtype dtype, const ElementPolicy& policy);

}  // namespace repro_check::comparators
