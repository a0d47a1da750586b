// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/report/report.h"

namespace repro_check::tests {

/// Where a made-up operator stands in its model.
struct Place {
  std::string module;
  std::string file;
  std::uint32_t line = 0;
};

/// A record whose innermost frame lies inside torch, as in real traces.
core::OpRecord record(std::uint64_t index, const std::string& name, const Place& place);
/// Both sides alike; no outputs yet.
comparators::OpDivergence divergence(std::uint64_t index,
                                     const std::string& name,
                                     const Place& place,
                                     comparators::Relation relation);
/// A stored output `0` whose digests differ.
comparators::TensorComparison tensor(core::Dtype dtype,
                                     std::vector<std::int64_t> shape,
                                     comparators::TensorOutcome outcome);
/// 3 of 4096 elements differ, 2 ULP at most.
comparators::TensorMetrics float_metrics();
std::vector<comparators::Sample> float_samples();

/// Sets diverged and equal so that the sums close.
void set_diverged(comparators::Coverage& c, std::uint64_t origins, std::uint64_t propagated);
/// 491 operators, all compared and equal; threads 2 against 1.
comparators::Report base(comparators::Status status, comparators::DivergenceKind kind);
/// op 41, a linear layer, by float_metrics().
comparators::OpDivergence first_origin();
comparators::OpDivergence propagated(std::uint64_t index, const std::string& name, double max_abs);

/// The layer of first_origin().
extern const Place kLinear;

}  // namespace repro_check::tests
