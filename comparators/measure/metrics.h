// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/digest/digest.h"
#include "core/system/memory.h"
#include "core/system/workers.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

/// Every metric of TensorMetrics in one pass over the two contents. Inside a leaf, element i is
/// added to lane i mod 8 in index order, then ((0+1)+(2+3))+((4+5)+(6+7)): the result depends on
/// nothing but the bytes. Integers are exact; complex numbers go by modulus; quantised ones by
/// their integer representation; two float4 in a byte only bitwise. Pairs with a NaN or an infinity
/// are counted and take part in no sum.
/// @param baseline, candidate  same dtype and shape, any dtype but kUnknown
/// @param threads  that share the work; 0 = as many as there are processors
/// @throws core::Error{kUnsupportedDtype} for kUnknown; core::Error{kInternal} when dtype, shape or
///         byte counts disagree
/// Source: B. Dawson, "Comparing Floating Point Numbers" (2012), for ULP; torch.isclose for the
/// tolerance; E. Anderson, TOMS algorithm 978, for the range of sums of squares.
TensorMetrics measure(core::TensorView baseline,
                      core::TensorView candidate,
                      const ElementPolicy& policy,
                      unsigned threads = 1);

/// Metrics and first differing elements of a pair, which hold once both sides are verified.
struct PairMeasurement {
  TensorMetrics metrics;
  std::vector<Sample> samples;
  /// Digests of the chunks of the baseline and of the candidate, for their verify().
  std::array<std::vector<core::Digest>, 2> chunks;
  /// Why a side could not be read: then nothing else holds.
  std::array<std::exception_ptr, 2> failures;
};

/// Two contents of one dtype and of equally many bytes.
struct MeasureRequest {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape = {};
  const core::ContentParts* baseline = nullptr;
  const core::ContentParts* candidate = nullptr;
  ElementPolicy policy = {};
  std::size_t max_samples = 0;  ///< differing elements to return
};

/// Measures pairs in parts on several threads, none of which holds more than one part of each side.
/// The result depends on nothing but the bytes: threads take leaves of a fixed size, whose
/// sums are added in order.
class PairMeasurer {
 public:
  /// @param threads  0 = as many as there are processors
  explicit PairMeasurer(unsigned threads) : buffers_(core::worker_count(threads)) {}

  /// All threads on one pair.
  PairMeasurement measure(const MeasureRequest& request);

  /// One thread a pair, which wastes nothing on pairs of few parts.
  /// @return in the order of the requests
  std::vector<PairMeasurement> measure_each(const std::vector<MeasureRequest>& requests);

 private:
  class Scan;
  using Buffers = std::array<core::AlignedBuffer, 2>;

  std::vector<Buffers> buffers_;  ///< of a worker, one a side
};

}  // namespace repro_check::comparators
