// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "configs/spec/compare_spec.h"

namespace repro_check::configs {

/// Reads rules from a file of their own: a list of them, or an object with `rules`, `unmatched`,
/// `strict_rules`, `noise` and `fp64` as the section `compare` of a configuration has them. What
/// `spec` holds of NaN and zeros goes for every rule that says nothing of them.
/// @throws core::Error{kUsage} with one line a problem, each with its JSON pointer
void load_rules(const std::filesystem::path& file, CompareSpec& spec);

}  // namespace repro_check::configs
