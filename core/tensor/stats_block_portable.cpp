// SPDX-License-Identifier: Apache-2.0
#define REPRO_CHECK_VECTOR_BYTES 16
#include "core/tensor/stats_block_loops.h"

namespace repro_check::core::detail {

StatsLoops portable_stats_loops() noexcept { return kLoops; }

}  // namespace repro_check::core::detail
