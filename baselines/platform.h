// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/run_manifest.h"

namespace repro_check::baselines {

/// Something with a name: `libtorch.version` `2.13.0`.
struct Fact {
  std::string name;
  std::string value;
  bool operator==(const Fact&) const = default;
};

/// What decides which numbers a machine computes: architecture, CPU kernels in use, libraries,
/// device, threads, and the digests of a few fixed computations (the numeric probe), because
/// machines of one description do not always agree.
struct Platform {
  std::vector<Fact> fields;  ///< in a fixed order

  [[nodiscard]] core::Digest key() const;
  bool operator==(const Platform&) const = default;
};

/// `3f9c0d12e5a7`: the part of a key that file names hold.
std::string short_key(const core::Digest& key);

/// Empty when the recording holds no numeric probe: an older recorder made it.
std::optional<Platform> platform_of(const core::RunManifest& manifest);

/// `x86_64 avx512 libtorch-2.13.0 threads-2`
std::string describe(const Platform& platform);

}  // namespace repro_check::baselines
