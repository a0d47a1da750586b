// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/float_block.h"
#include "comparators/measure/float_block_loops.h"

namespace repro_check::comparators::detail {

BlockLoops portable_block_loops() noexcept { return kLoops; }

const BlockLoops& block_loops() noexcept {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  static const BlockLoops loops = avx512 ? avx512_block_loops()
                                  : avx2 ? avx2_block_loops()
                                         : portable_block_loops();
#else
  static const BlockLoops loops = portable_block_loops();
#endif
  return loops;
}

}  // namespace repro_check::comparators::detail
