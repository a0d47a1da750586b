// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace repro_check::core {

/// Number of a lane: the place in the program that makes work, never the thread that happens to run
/// it. The same place has the same number in every run.

inline constexpr std::uint32_t kMainLane = 0;

/// Of what `creator` forks as its `ordinal`-th, from 0. Distinct for three levels of 16,383, 255
/// and 255 forks; beyond them a digest of the path, 30 bits of it.
std::uint32_t forked_lane(std::uint32_t creator, std::uint32_t ordinal) noexcept;

/// Of the work that threads do for `creator` of which nobody knows the place: it has no order.
std::uint32_t pool_lane(std::uint32_t creator) noexcept;

bool is_unordered(std::uint32_t lane) noexcept;

/// The path of creation: `main`, `main.0`, `main.0.2`; `fork 1a2b3c4d` beyond; `pool of main.0`.
std::string lane_text(std::uint32_t lane);

}  // namespace repro_check::core
