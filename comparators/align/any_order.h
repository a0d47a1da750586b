// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Whether the records of several processes are those of several others, whoever ran them and in
/// whatever order: workers of a pool take the tasks that come next, which is a race.
/// @param baseline, candidate  one source a process, none null
/// @return how many records there are; empty where some have no equal, or are not known to have
/// one:
///         content that nobody read, damage, digests of two rules
std::optional<std::uint64_t> same_in_any_order(std::span<const core::DumpSource* const> baseline,
                                               std::span<const core::DumpSource* const> candidate);

}  // namespace repro_check::comparators
