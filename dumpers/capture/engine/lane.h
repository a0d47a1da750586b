// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace repro_check::capture {

/// What a front end tells of the lanes of a program that forks. While a Capture::Scope is alive,
/// what a thread launches inherits its lane with the rest of LibTorch's thread-local state; on
/// which thread a lane goes on, only the front end knows. Work of a thread of which it was not told
/// is recorded as of the lane's pool, without an order. Outside a scope all of this does nothing.

/// This thread goes on with its lane, at a place that only the front end understands.
void go_on_at(std::int64_t place) noexcept;

/// Where the lane of this thread stands; empty when this thread is not known to go on with it.
std::optional<std::int64_t> place_here() noexcept;

/// Where the lane that this thread began with stands, whichever thread it is on by now.
std::optional<std::int64_t> place_of_lane() noexcept;

/// From here to end_fork() this thread launches the next fork of its lane. Operators that it runs
/// itself meanwhile are not the program's, and are not recorded: LibTorch's compiler runs some.
void begin_fork();
void end_fork() noexcept;

/// The lane may go on on another thread.
void leave_thread() noexcept;

}  // namespace repro_check::capture
