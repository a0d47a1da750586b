// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Whether one of its tensors is not in host memory.
bool on_accelerator(const core::OpRecord& record);

/// Why kernels of this operator are known to give other bits when they run again, where they ran,
/// as the key of a phrase; null where nothing is known.
std::optional<std::string_view> known_nondeterminism(const core::OpRecord& record);

/// The same of what differs between processes alone.
/// @param threads  that shared the work
std::optional<std::string_view> differs_between_processes(const core::OpRecord& record,
                                                          std::uint64_t threads);

/// Whether it chooses among equal values.
bool breaks_ties(const core::OperatorInfo& op) noexcept;

}  // namespace repro_check::comparators
