// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/measure/policy.h"
#include "comparators/report/report.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators {

/// Elements whose sums are made together; the leaves are added in order. It never straddles a chunk
/// of the digest.
inline constexpr std::size_t kMetricLeaf = 65'536;

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

}  // namespace repro_check::comparators
