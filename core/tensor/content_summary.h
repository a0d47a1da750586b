// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/tensor/tensor_stats.h"

namespace repro_check::core {

struct ContentSummary {
  Digest digest;
  NonFinite non_finite;  ///< only where there are no statistics
  std::optional<TensorStats> stats;
};

/// Of a content that is read leaf by leaf, in any order, by several threads at once.
class SummaryOfLeaves {
 public:
  /// @param bytes  of the content; 0 is one empty leaf
  SummaryOfLeaves(Dtype dtype, bool with_stats, std::size_t bytes)
      : dtype_(dtype),
        digests_(bytes <= kDigestChunk ? 1 : (bytes + kDigestChunk - 1) / kDigestChunk),
        counts_(with_stats ? 0 : digests_.size()),
        stats_(with_stats ? digests_.size() : 0) {}

  [[nodiscard]] std::size_t leaves() const noexcept { return digests_.size(); }

  /// @param index  of a leaf that nobody else sets
  void set(std::size_t index, std::span<const std::byte> leaf);

  /// Once every leaf is set.
  [[nodiscard]] ContentSummary put_together() const;

 private:
  Dtype dtype_;
  std::vector<Digest> digests_;
  std::vector<NonFinite> counts_;
  std::vector<LeafStats> stats_;
};

}  // namespace repro_check::core
