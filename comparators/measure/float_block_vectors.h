// SPDX-License-Identifier: Apache-2.0
// Vectors of as many bytes as the including file says, and what they can do. Everything here has
// internal linkage on purpose: see float_block.h.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "comparators/measure/float_block.h"

#ifndef REPRO_CHECK_VECTOR_BYTES
#define REPRO_CHECK_VECTOR_BYTES 16
#endif

namespace repro_check::comparators::detail {
namespace {

inline constexpr std::size_t kWidth = REPRO_CHECK_VECTOR_BYTES / sizeof(double);
using Doubles [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = double;
using Longs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::int64_t;
using ULongs [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES)]] = std::uint64_t;
using Floats [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = float;
using Ints [[gnu::vector_size(REPRO_CHECK_VECTOR_BYTES / 2)]] = std::int32_t;
/// Of a whole register, and at most of the lanes of a block.
inline constexpr std::size_t kWholeBytes = REPRO_CHECK_VECTOR_BYTES < 32 ? 16 : 32;
using WholeInts [[gnu::vector_size(kWholeBytes)]] = std::int32_t;
using WholeUInts [[gnu::vector_size(kWholeBytes)]] = std::uint32_t;
using WholeFloats [[gnu::vector_size(kWholeBytes)]] = float;

template <typename Vector, typename Element>
inline Vector load(const Element* at) {
  Vector vector;
  __builtin_memcpy(&vector, at, sizeof vector);
  return vector;
}

template <typename Element, typename Vector>
inline void store(Element* at, const Vector& vector) {
  __builtin_memcpy(at, &vector, sizeof vector);
}

inline Doubles magnitude_of(const Doubles& value) {
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, value) & 0x7FFF'FFFF'FFFF'FFFF);
}

// GCC 12 compares and blends where there is an instruction for it.
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
inline Doubles greater_of(const Doubles& one, const Doubles& other) {
  return __builtin_bit_cast(
      Doubles, _mm512_max_pd(__builtin_bit_cast(__m512d, one), __builtin_bit_cast(__m512d, other)));
}
inline Doubles lesser_of(const Doubles& one, const Doubles& other) {
  return __builtin_bit_cast(
      Doubles, _mm512_min_pd(__builtin_bit_cast(__m512d, one), __builtin_bit_cast(__m512d, other)));
}
#elif defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 32
inline Doubles greater_of(const Doubles& one, const Doubles& other) {
  return __builtin_bit_cast(
      Doubles, _mm256_max_pd(__builtin_bit_cast(__m256d, one), __builtin_bit_cast(__m256d, other)));
}
inline Doubles lesser_of(const Doubles& one, const Doubles& other) {
  return __builtin_bit_cast(
      Doubles, _mm256_min_pd(__builtin_bit_cast(__m256d, one), __builtin_bit_cast(__m256d, other)));
}
#else
inline Doubles greater_of(const Doubles& one, const Doubles& other) {
  return one > other ? one : other;
}
inline Doubles lesser_of(const Doubles& one, const Doubles& other) {
  return one < other ? one : other;
}
#endif
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES >= 32
inline WholeInts greater_of(const WholeInts& one, const WholeInts& other) {
  return __builtin_bit_cast(
      WholeInts,
      _mm256_max_epi32(__builtin_bit_cast(__m256i, one), __builtin_bit_cast(__m256i, other)));
}
inline WholeInts lesser_of(const WholeInts& one, const WholeInts& other) {
  return __builtin_bit_cast(
      WholeInts,
      _mm256_min_epi32(__builtin_bit_cast(__m256i, one), __builtin_bit_cast(__m256i, other)));
}
inline WholeUInts greater_of(const WholeUInts& one, const WholeUInts& other) {
  return __builtin_bit_cast(
      WholeUInts,
      _mm256_max_epu32(__builtin_bit_cast(__m256i, one), __builtin_bit_cast(__m256i, other)));
}
inline WholeUInts lesser_of(const WholeUInts& one, const WholeUInts& other) {
  return __builtin_bit_cast(
      WholeUInts,
      _mm256_min_epu32(__builtin_bit_cast(__m256i, one), __builtin_bit_cast(__m256i, other)));
}
#else
inline WholeInts greater_of(const WholeInts& one, const WholeInts& other) {
  return one > other ? one : other;
}
inline WholeInts lesser_of(const WholeInts& one, const WholeInts& other) {
  return one < other ? one : other;
}
inline WholeUInts greater_of(const WholeUInts& one, const WholeUInts& other) {
  return one > other ? one : other;
}
inline WholeUInts lesser_of(const WholeUInts& one, const WholeUInts& other) {
  return one < other ? one : other;
}
#endif
inline Longs greater_of(const Longs& one, const Longs& other) { return one > other ? one : other; }
inline Longs lesser_of(const Longs& one, const Longs& other) { return one < other ? one : other; }

inline Doubles masked(const Doubles& value, const Longs& mask) {
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, value) & mask);
}

inline std::uint64_t total(const ULongs& lanes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) sum += lanes[i];
  return sum;
}

inline std::uint64_t total(const WholeUInts& lanes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWholeBytes / sizeof(std::uint32_t); ++i) sum += lanes[i];
  return sum;
}

/// Hits are -1 a lane.
inline std::uint64_t hits(const Longs& lanes) { return -total(__builtin_bit_cast(ULongs, lanes)); }
inline std::uint64_t hits(const WholeInts& lanes) {
  return total(__builtin_bit_cast(WholeUInts, -lanes));
}

inline double most_of(const Doubles& lanes) {
  double most = 0;
  for (std::size_t i = 0; i < kWidth; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

inline std::uint32_t most_of(const WholeUInts& lanes) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < kWholeBytes / sizeof(std::uint32_t); ++i) {
    most = lanes[i] > most ? lanes[i] : most;
  }
  return most;
}

/// sum + one * other where the product takes no more bits than a double has, so that one rounding
/// is the same as two: a fused instruction, where there is one, gives the same bits.
inline Doubles plus_exact_product(const Doubles& sum, const Doubles& one, const Doubles& other) {
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
  return __builtin_bit_cast(Doubles,
                            _mm512_fmadd_pd(__builtin_bit_cast(__m512d, one),
                                            __builtin_bit_cast(__m512d, other),
                                            __builtin_bit_cast(__m512d, sum)));
#elif defined(__FMA__) && REPRO_CHECK_VECTOR_BYTES == 32
  return __builtin_bit_cast(Doubles,
                            _mm256_fmadd_pd(__builtin_bit_cast(__m256d, one),
                                            __builtin_bit_cast(__m256d, other),
                                            __builtin_bit_cast(__m256d, sum)));
#else
  return sum + one * other;
#endif
}

// GCC 12 makes halves and inserts of what is one instruction.
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
inline Doubles widen(const Floats& value) {
  return __builtin_bit_cast(Doubles, _mm512_cvtps_pd(__builtin_bit_cast(__m256, value)));
}
inline Ints high_words(const Longs& value) {
  return __builtin_bit_cast(
      Ints, _mm512_cvtepi64_epi32(_mm512_srli_epi64(__builtin_bit_cast(__m512i, value), 32)));
}
#elif defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 32
inline Doubles widen(const Floats& value) {
  return __builtin_bit_cast(Doubles, _mm256_cvtps_pd(__builtin_bit_cast(__m128, value)));
}
inline Ints high_words(const Longs& value) {
  const __m256i order = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
  return __builtin_bit_cast(Ints,
                            _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                __builtin_bit_cast(__m256i, value), order)));
}
#else
inline Doubles widen(const Floats& value) { return __builtin_convertvector(value, Doubles); }
inline Ints high_words(const Longs& value) { return __builtin_convertvector(value >> 32, Ints); }
#endif

inline constexpr unsigned kMantissaBits = 52;
inline constexpr std::int64_t kBias = 1023;

/// Biased exponents of numbers that are not negative.
inline Longs exponents_of(const Doubles& value) {
  return __builtin_bit_cast(Longs, __builtin_bit_cast(ULongs, value) >> kMantissaBits);
}

/// Sign-magnitude to a number line on which neighbours differ by 1.
inline WholeInts order_of_bits(const WholeInts& bits) {
  const WholeInts sign = bits >> 31;
  return ((bits & 0x7FFF'FFFF) ^ sign) - sign;
}
inline Longs order_of_bits(const Longs& bits) {
  const Longs sign = bits >> 63;
  return ((bits & 0x7FFF'FFFF'FFFF'FFFF) ^ sign) - sign;
}

/// The sums of the lanes that one vector holds.
struct LaneSums {
  Doubles abs;
  Doubles rel;
  Doubles d2;
  Doubles b2;
  Doubles c2;
  Doubles bc;

  LaneSums(const BlockSums& sums, std::size_t lane)
      : abs(load<Doubles>(sums.abs + lane)),
        rel(load<Doubles>(sums.rel + lane)),
        d2(load<Doubles>(sums.d2 + lane)),
        b2(load<Doubles>(sums.b2 + lane)),
        c2(load<Doubles>(sums.c2 + lane)),
        bc(load<Doubles>(sums.bc + lane)) {}

  void keep(BlockSums& sums, std::size_t lane) const {
    store(sums.abs + lane, abs);
    store(sums.rel + lane, rel);
    store(sums.d2 + lane, d2);
    store(sums.b2 + lane, b2);
    store(sums.c2 + lane, c2);
    store(sums.bc + lane, bc);
  }
};

}  // namespace
}  // namespace repro_check::comparators::detail
