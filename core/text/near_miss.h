// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace repro_check::core {

/// The candidate a person most likely meant by `word`: the one fewest edits away (insertion,
/// deletion, replacement, neighbours swapped; case counts as nothing), if that is at most a third
/// of its length, and never less than one edit is forgiven. Ties go to the first.
/// @return borrowed from `candidates`; empty when nothing is near
std::optional<std::string_view> near_miss(std::string_view word,
                                          std::span<const std::string_view> candidates);

}  // namespace repro_check::core
