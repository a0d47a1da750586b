// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/capture/tensors/strided_bytes.h"

namespace repro_check::capture {

struct ContentSummary {
  core::Digest digest;
  core::NonFinite non_finite;  ///< only where there are no statistics
  std::optional<core::TensorStats> stats;
};

/// Digest of the content by the rule of core::kDigestAlgorithm, and its NaN and infinities or,
/// where `with_stats`, all statistics, in one walk over the leaves, which are shared out over
/// LibTorch's own threads. Nothing is written, no operator is called, no generator moves.
ContentSummary summarise_content(const StridedBytes& content, core::Dtype dtype, bool with_stats);

/// How many threads an OpenMP region of this process really gets, and what LibTorch says.
struct ThreadTeam {
  int reported = 0;
  int measured = 0;
};
ThreadTeam measure_team();

/// Flush-to-zero and denormals-are-zero on every thread of the team.
/// @return whether the processor can
bool set_flush_denormal(bool on);

/// Control register of SSE on the calling thread; 0 where there is none.
std::uint32_t read_mxcsr() noexcept;

}  // namespace repro_check::capture
