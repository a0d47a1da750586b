// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::configs {

/// Runs that make a floor, the first one included: a new run exceeds the greatest of n earlier ones
/// with chance 1/(n+1) an operator.
inline constexpr std::uint64_t kFewestNoiseRuns = 3;

/// How far apart runs of one configuration were at one output: the greatest distance of any of them
/// from the first.
struct OutputFloor {
  double l2_rel = 0;
  double max_abs = 0;
  std::string problem;  ///< why there is no floor; empty = the numbers hold
  bool operator==(const OutputFloor&) const = default;
};

struct OperatorFloors {
  std::string op;      ///< with its overload
  std::string module;  ///< path
  /// By `output 0` for tensors and `result 0` for all else.
  std::map<std::string, OutputFloor> outputs;
  bool operator==(const OperatorFloors&) const = default;
};

/// What runs have in common that floors hold for: model, inputs and configuration, without their
/// names and places.
struct NoiseSubject {
  std::string model_digest;
  std::string method;
  std::map<std::string, std::string> inputs;  ///< `float32 [2, 3] digest` by name
  std::string libtorch;
  std::string configuration;  ///< JSON text
  bool operator==(const NoiseSubject&) const = default;
};

/// Floors of every operator of the first of N runs, by op index.
struct NoiseFloors {
  std::string file;  ///< for messages
  std::string tool_version;
  std::uint64_t runs = 0;
  NoiseSubject subject;
  std::vector<OperatorFloors> operators;

  /// @param role  `output`, `result`
  /// @return null where the run had another operator at the record's index, or there is no floor
  [[nodiscard]] const OutputFloor* find(const core::OpRecord& record,
                                        std::string_view role,
                                        std::string_view slot) const;
};

NoiseSubject noise_subject(const core::RunManifest& manifest);

/// How a run is not what the floors were made of, a phrase each: `/threads: 1 against 2`. Empty
/// where they hold for it.
std::vector<std::string> differences(const NoiseSubject& floors, const NoiseSubject& run);

inline constexpr const char* kNoiseFormat = "repro-check-noise";
inline constexpr const char* kNoiseVersion = "1.0";

/// The file of docs/CONFIGURATION.md, section Noise: a head, a line an operator, a checksum.
std::string to_noise_text(const NoiseFloors& floors);

/// @param origin  named in messages
/// @throws core::Error{kUsage} when the text is not whole, not of this format or version, or holds
///         a floor that is no finite number of 0 or more
NoiseFloors parse_noise_text(const std::string& text, const std::string& origin);

/// @throws as parse_noise_text(), and when the file cannot be read
NoiseFloors load_noise(const std::filesystem::path& file);

}  // namespace repro_check::configs
