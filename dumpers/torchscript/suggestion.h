// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace repro_check::torchscript {

/// `; did you mean "mask"?` when a name is near, `; there are "x", "y"` when none is, empty when
/// there are no names at all.
std::string suggest(const std::string& given, const std::vector<std::string>& names);

}  // namespace repro_check::torchscript
