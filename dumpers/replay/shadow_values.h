// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/trace/dump.h"
#include "dumpers/replay/precision.h"
#include "dumpers/replay/shadow_counts.h"

namespace repro_check::replay {

/// How float64 values were computed.
struct ShadowValuesOutcome {
  ShadowCounts counts;
  std::vector<ShadowCut> cuts;
};

/// Executes the recorded calls in float64 and writes what they give at the wanted tensors: for each
/// a record of shadow::outputs with the outputs
///   0  along the whole chain,
///   1  with the wanted tensors before it as they were recorded,
///   2  with those of `given` in their place.
/// @param wanted  of outermost calls, by their op
/// @param given   record i has as its only output what stands in the place of wanted[i]: float64,
///                of its shape; one without output is taken and nothing is put in its place
/// @throws core::Error{kNotComparable} when a dump does not hold the values; {kDumpDamaged}; as
/// sink
ShadowValuesOutcome write_shadow_values(const core::DumpSource& dump,
                                        std::span<const RecordedTensor> wanted,
                                        const core::DumpSource& given,
                                        core::DumpSink& sink);

inline constexpr std::uint64_t kShadowOutputs = 3;
/// The operator of these records.
inline constexpr const char* kShadowRecord = "shadow::outputs";

}  // namespace repro_check::replay
