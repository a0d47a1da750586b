// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/trace/dump.h"

namespace repro_check::comparators {

/// One source a process, none null.
using Processes = std::vector<std::unique_ptr<core::DumpSource>>;

/// Whether the records of several processes are those of several others, whoever ran them and in
/// whatever order: workers of a pool take the tasks that come next, which is a race.
/// @return how many records there are; empty where some have no equal, or are not known to have
/// one:
///         content that nobody read, damage, digests of two rules
std::optional<std::uint64_t> same_in_any_order(const Processes& baseline,
                                               const Processes& candidate);

}  // namespace repro_check::comparators
