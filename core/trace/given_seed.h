// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/run_manifest.h"

namespace repro_check::core {

/// A setting of every run whose generators repro-check has seeded: that of the CPU.
inline constexpr std::string_view kSeededGenerator = "generator.cpu";

/// The seed that repro-check gave the generators of a run; empty for a program that it gave none.
inline std::optional<std::uint64_t> given_seed(const RunManifest& manifest) {
  const bool is_unseeded =
      manifest.is_of_program() && used_setting(manifest, kSeededGenerator) == nullptr;
  return is_unseeded ? std::nullopt : std::optional(manifest.seed);
}

/// As a configuration has it: `0`, `null`.
inline std::string given_seed_text(const RunManifest& manifest) {
  const auto seed = given_seed(manifest);
  return seed ? std::to_string(*seed) : "null";
}

}  // namespace repro_check::core
