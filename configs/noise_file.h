// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "configs/spec/noise_floors.h"

namespace repro_check::configs {

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
