// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/float_block.h"

// Compiled with -mavx2 where the compiler has it.
#if defined(__AVX2__)
#define REPRO_CHECK_VECTOR_BYTES 32
#else
#define REPRO_CHECK_VECTOR_BYTES 16
#endif
#include "comparators/measure/float_block_loops.h"

namespace repro_check::comparators::detail {

BlockLoops avx2_block_loops() noexcept { return kLoops; }

}  // namespace repro_check::comparators::detail
