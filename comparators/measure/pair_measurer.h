// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/content/content.h"
#include "core/digest/digest.h"
#include "core/system/aligned_buffer.h"
#include "core/system/worker_pool.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators::detail {

/// Two contents of one dtype and of equally many bytes.
struct ContentPair {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  const core::ContentParts* baseline = nullptr;
  const core::ContentParts* candidate = nullptr;
};

/// Metrics and first differing elements of a pair, which hold once both sides are verified.
struct PairMeasurement {
  TensorMetrics metrics;
  std::vector<Sample> samples;
  /// Digests of the chunks of the baseline and of the candidate, for their verify().
  std::array<std::vector<core::Digest>, 2> chunks;
  /// Why a side could not be read: then nothing else holds.
  std::array<std::exception_ptr, 2> failures;
};

struct MeasureRequest {
  ContentPair pair;
  ElementPolicy policy;
  std::size_t max_samples = 0;  ///< differing elements to return
};

/// Measures pairs in parts on several threads, none of which holds more than one part of each side.
/// The result depends on nothing but the bytes: threads take leaves of kMetricLeaf elements, whose
/// sums are added in order.
class PairMeasurer {
 public:
  /// @param threads  0 = as many as there are processors
  explicit PairMeasurer(unsigned threads) : pool_(threads), buffers_(pool_.size()) {}

  /// All threads on one pair.
  PairMeasurement measure(const MeasureRequest& request);

  /// One thread a pair, which wastes nothing on pairs of few parts.
  /// @return in the order of the requests
  std::vector<PairMeasurement> measure_each(const std::vector<MeasureRequest>& requests);

 private:
  class Scan;
  using Buffers = std::array<core::AlignedBuffer, 2>;

  core::WorkerPool pool_;
  std::vector<Buffers> buffers_;  ///< of a worker, one a side
};

}  // namespace repro_check::comparators::detail
