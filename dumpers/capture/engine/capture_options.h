// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/trace/run_manifest.h"

namespace repro_check::capture {

struct CaptureOptions : core::RecordedOperators {
  bool disable_dropout = false;
  core::RngMode rng = core::RngMode::kDevice;
  /// The program may write memory without an operator, as Python does from lists, files and shared
  /// memory: what nobody was seen to write counts as written once it is read.
  bool unseen_writes = false;
};

/// Progress of a Capture.
struct CaptureCounts {
  std::uint64_t operators = 0;  ///< records, those of returned values included
  std::uint64_t returned = 0;
  std::uint64_t tensors = 0;
  std::uint64_t rows = 0;  ///< calls of blocks, and parameters
  std::uint64_t substitutions = 0;
  std::uint64_t drawing_operators = 0;
  /// Operators that may have drawn while somebody else held their generator.
  std::uint64_t uncounted_draws = 0;
  std::uint64_t hashed_bytes = 0;
  /// Calls on tensors of a class of the program's of which nobody saw what that class did.
  std::uint64_t unseen_insides = 0;
  /// Inputs that were hashed anew and had changed though no recorded operator wrote them.
  std::uint64_t stale_inputs = 0;
  std::string accelerator;  ///< on which the first tensor was that was not in host memory
};

}  // namespace repro_check::capture
