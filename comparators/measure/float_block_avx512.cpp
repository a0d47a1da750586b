// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/float_block.h"

// Compiled with -mavx512f and its kin where the compiler has them.
#if defined(__AVX512F__)
#define REPRO_CHECK_VECTOR_BYTES 64
#else
#define REPRO_CHECK_VECTOR_BYTES 16
#endif
#include "comparators/measure/float_block_loops.h"

namespace repro_check::comparators::detail {

BlockLoops avx512_block_loops() noexcept { return kLoops; }

}  // namespace repro_check::comparators::detail
