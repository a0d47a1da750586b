// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace repro_check::test {

/// A zip archive of empty, stored entries.
std::string zip_of(const std::vector<std::string>& names);

}  // namespace repro_check::test
