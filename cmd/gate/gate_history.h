// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cmd/gate/history.h"
#include "cmd/render/gate_outcome.h"

namespace repro_check::cmd {

/// After so many gates in a row in which what happens sometimes did not, it may be taken out.
inline constexpr std::uint64_t kAgreedLongEnough = 20;

/// In how many gates in a row, the present one included, an expected divergence agreed: passing
/// gates of its name on its platform. A gate that did not pass says nothing of it and is passed
/// over, unless the divergence happened there; one that did not ask ends the row.
/// @param match  of the entry, as ExpectedOutcome has it
std::uint64_t agreed_in_a_row(std::span<const HistoryEntry> before,
                              const HistoryEntry& now,
                              const std::string& match);

/// `attempt 2; attempt 1 diverged at aten::addmm`: what became of the earlier attempts of this job,
/// as the history has them; empty where there was none.
std::string earlier_attempts(std::span<const HistoryEntry> before, const HistoryEntry& now);

/// Adds both to what a gate found.
void recall(std::span<const HistoryEntry> before, const HistoryEntry& now, GateOutcome& outcome);

}  // namespace repro_check::cmd
