// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace repro_check::core::detail {

/// Those of three tables of functions, compiled for AVX-512, AVX2 and every machine, that this
/// processor can run: the fastest first.
template <typename Functions>
std::span<const Functions> runnable(const std::array<Functions, 3>& fastest_first) noexcept {
  std::size_t first = 2;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) first = 1;
  if (first == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    first = 0;
  }
#endif
  return std::span(fastest_first).subspan(first);
}

}  // namespace repro_check::core::detail
