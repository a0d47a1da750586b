// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// The record in `other` that belongs to op `index` of `dump`, as a comparison of the two pairs
/// them.
/// @throws core::Error{kNotComparable} when there is none
std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other);

}  // namespace repro_check::cmd
