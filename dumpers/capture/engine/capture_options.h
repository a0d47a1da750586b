// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/trace/run_manifest.h"

namespace repro_check::capture {

struct DigestingDevices;

struct CaptureOptions : core::RecordedOperators {
  bool disable_dropout = false;
  core::RngMode rng = core::RngMode::kDevice;
  /// The program may write memory without an operator, as Python does from lists, files and shared
  /// memory: what nobody was seen to write counts as written once it is read.
  bool unseen_writes = false;
  /// Those that digest contents where they lie; null = NVIDIA's.
  std::shared_ptr<const DigestingDevices> devices = nullptr;
  /// Of records that wait for digests; beyond it the oldest digests are waited for.
  std::size_t most_pending = std::size_t{64} << 20U;
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
  /// How often digests of a device were waited for because there was no room for more.
  std::uint64_t device_waits = 0;
  std::uint64_t unread_borders = 0;  ///< that a device could not digest
  std::string accelerator;           ///< on which the first tensor was that was not in host memory
};

}  // namespace repro_check::capture
