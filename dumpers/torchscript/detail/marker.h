// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>

namespace repro_check::torchscript {

/// A TorchScript operator `repro_check::at(int id) -> ()` that notes, on the thread that runs it,
/// where in the model the next operator stands. It never reaches the dispatcher, so capture does
/// not see it, and it counts as having side effects, so no pass removes or moves it.

inline constexpr std::int64_t kNowhere = -1;

/// Registers the operator, once a process.
void register_marker();

/// Puts a marker before `node`.
void insert_marker(torch::jit::Node* node, std::int64_t id);

/// What the last marker on this thread said; kNowhere before the first.
std::int64_t current_mark() noexcept;
void reset_mark() noexcept;

}  // namespace repro_check::torchscript
