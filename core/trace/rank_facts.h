// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Facts of the environment that a process tells which is one of several ranks, or that trains.

namespace repro_check::core {

/// Before the name of a parameter that gets gradients and is in no optimizer, and that the program
/// does not move by itself.
inline constexpr std::string_view kUntrained = "untrained.";

/// Before the name of a distributed tensor: the ranks that share it, where these are not all.
inline constexpr std::string_view kMesh = "distributed.mesh.";

/// Before a number, from 0: how many steps the rank had made when it left a join() context.
inline constexpr std::string_view kJoined = "distributed.joined.";

/// What averages the parameters of all ranks now and then, in place of their gradients.
inline constexpr std::string_view kAverager = "distributed.averager";

/// How many ranks the process stands for that has no others: `fake` process groups.
inline constexpr std::string_view kSimulatedRanks = "distributed.simulated";

/// First line of the text of the exception that ended a rank, without what may be a secret in it;
/// of the whole text there is a digest alone.
inline constexpr std::string_view kRaisedText = "process.ended_text";

}  // namespace repro_check::core
