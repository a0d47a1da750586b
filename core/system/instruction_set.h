// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace repro_check::core::detail {

/// Position, in a list of AVX-512, AVX2 and portable, of the first that this processor can run.
inline std::size_t first_runnable() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 0;
  if (__builtin_cpu_supports("avx2")) return 1;
#endif
  return 2;
}

}  // namespace repro_check::core::detail
