// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "baselines/baseline.h"
#include "core/digest/digest.h"

namespace repro_check::baselines {

inline constexpr std::string_view kPendingSuffix = ".repro.new";

/// What a gate found, on its way to become a baseline.
///
///   file = "repro-pending 1" LF "runs" SP ( "agreed" / "disagreed" ) SP count LF
///          "model" SP digest SP rest LF [ "weights" SP digest SP rest LF ] baseline
///          "pending" SP digest LF
struct Pending {
  bool agreed = false;      ///< the runs agreed with each other
  std::uint64_t runs = 0;   ///< how many there were
  core::Digest model_file;  ///< digest of the file they loaded
  std::string model_path;   ///< as it was given
  Baseline baseline;
  /// As of the model, of the file that weights were taken from; empty where those are its own.
  std::optional<core::Digest> weights_file = std::nullopt;
  std::string weights_path = {};
};

std::string to_text(const Pending& pending);

/// @throws as baseline_from_text()
Pending pending_from_text(std::string_view text, const std::string& origin);

}  // namespace repro_check::baselines
