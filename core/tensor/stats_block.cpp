// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/stats_block.h"

#include <array>

#include "core/system/instruction_set.h"

namespace repro_check::core::detail {

std::span<const StatsLoops> runnable_stats_loops() noexcept {
  static const std::array<StatsLoops, 3> fastest_first{
      avx512_stats_loops(), avx2_stats_loops(), portable_stats_loops()};
  return std::span(fastest_first).subspan(first_runnable());
}

}  // namespace repro_check::core::detail
