// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/digest.h"
#include "dumpers/capture/detail/strided_bytes.h"

namespace repro_check::capture {

/// Digest of the content by the rule of core::kDigestAlgorithm, its leaves shared out over
/// LibTorch's own threads. Nothing is written, no operator is called, no generator moves.
core::Digest digest_content(const StridedBytes& content);

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
