// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/digest.h"
#include "core/dtype.h"
#include "core/tensor_record.h"
#include "dumpers/capture/detail/strided_bytes.h"

namespace repro_check::capture {

struct ContentSummary {
  core::Digest digest;
  std::optional<core::TensorStats> stats;
};

/// Digest of the content by the rule of core::kDigestAlgorithm and, where `stats_as` names the
/// dtype, statistics of the elements, in one walk over the leaves, which are shared out over
/// LibTorch's own threads. Nothing is written, no operator is called, no generator moves.
ContentSummary summarise_content(const StridedBytes& content, std::optional<core::Dtype> stats_as);

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
