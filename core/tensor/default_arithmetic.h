// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace repro_check::core::detail {

/// Rounding to nearest and true subnormals on this thread for as long as it lives, whatever the
/// audited program has set.
class DefaultArithmetic {
 public:
#if defined(__SSE2__)
  DefaultArithmetic() noexcept : found_(_mm_getcsr()) {
    constexpr unsigned kDefault = 0x1F80;
    _mm_setcsr(kDefault);
  }
  ~DefaultArithmetic() { _mm_setcsr(found_); }
#else
  DefaultArithmetic() noexcept = default;
  ~DefaultArithmetic() = default;
#endif
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;
  DefaultArithmetic(DefaultArithmetic&&) = delete;
  DefaultArithmetic& operator=(DefaultArithmetic&&) = delete;

 private:
#if defined(__SSE2__)
  unsigned found_;
#endif
};

}  // namespace repro_check::core::detail
