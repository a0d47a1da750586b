// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace repro_check::test {

/// A zip archive of stored entries, which all hold the same.
/// @param checksum  that stands there for it: its CRC-32, or a wrong one
std::string zip_of(const std::vector<std::string>& names,
                   const std::string& content = {},
                   std::uint32_t checksum = 0);

/// A zip archive of stored entries: names, and what each holds.
std::string zip_holding(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace repro_check::test
