// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Why an operator may give another result for the same inputs, settings and threads: `adds in the
/// order in which threads arrive`. Empty for operators nobody has reported, or only for other
/// devices. Sources: torch.use_deterministic_algorithms (its list of operators that throw or
/// change), and runs of our own on CPUs with two threads.
std::optional<std::string_view> known_nondeterminism(const core::OpRecord& record);

/// Why a CPU operator may give another result in another process, although neither its inputs nor
/// any setting differ: MKL's vector functions on more than 2,048 elements with two threads or more
/// have been seen to give one thread a kernel of lower accuracy on their first call in a process.
/// Empty for other operators, for smaller tensors, and for one thread.
/// @param threads  of the run, `threads.intra_op`
std::optional<std::string_view> differs_between_processes(const core::OpRecord& record,
                                                          std::uint64_t threads);

/// Whether a tensor of the call lay elsewhere than in the memory of the CPU.
bool on_accelerator(const core::OpRecord& record);

/// Whether the operator orders or selects, so that ties may be broken differently: topk, sort, ...
bool breaks_ties(const core::OperatorInfo& op) noexcept;

/// Whether the operator is one of the dropout family.
bool is_dropout(const core::OperatorInfo& op) noexcept;

}  // namespace repro_check::comparators
