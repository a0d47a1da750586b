// SPDX-License-Identifier: Apache-2.0
// What a unit needs that is compiled once an instruction set (repro_check_by_instruction_set() in
// CMake says which): a name of its own, vectors as wide as that set has them, and what these can
// do. Nothing here, nor in such a unit, may pull in inline functions of a library: the linker would
// keep one copy for all, and that could be the one this processor cannot run. So all of it has
// internal linkage.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifndef REPRO_CHECK_ISA
#define REPRO_CHECK_ISA portable
#endif
#ifndef REPRO_CHECK_VECTOR_BYTES
#define REPRO_CHECK_VECTOR_BYTES 16
#endif
// REPRO_CHECK_OF_ISA(loops) is avx2_loops.
#define REPRO_CHECK_JOINED_NAME(isa, name) isa##_##name
#define REPRO_CHECK_EXPANDED_NAME(isa, name) REPRO_CHECK_JOINED_NAME(isa, name)
#define REPRO_CHECK_OF_ISA(name) REPRO_CHECK_EXPANDED_NAME(REPRO_CHECK_ISA, name)

namespace repro_check::core::detail {
namespace {

inline constexpr std::size_t kVectorBytes = REPRO_CHECK_VECTOR_BYTES;

template <typename Element, std::size_t kBytes>
struct VectorOf {
  using Type [[gnu::vector_size(kBytes)]] = Element;
};
template <typename Element, std::size_t kBytes = kVectorBytes>
using Vector = typename VectorOf<Element, kBytes>::Type;

using Doubles = Vector<double>;
using Longs = Vector<std::int64_t>;
/// Of as many lanes as Doubles.
using Floats = Vector<float, kVectorBytes / 2>;
using Ints = Vector<std::int32_t, kVectorBytes / 2>;
inline constexpr std::size_t kDoubles = sizeof(Doubles) / sizeof(double);

/// What numbers are held in, and how their bits are told apart.
template <typename Float, typename Integer, std::size_t kBytes>
struct NumberKind {
  using Value = Float;
  using Bit = Integer;
  using UBit = std::make_unsigned_t<Integer>;
  using Values = Vector<Float, kBytes>;
  using Bits = Vector<Integer, kBytes>;
  using UBits = Vector<UBit, kBytes>;
  static constexpr std::size_t kLanes = kBytes / sizeof(Float);
  static constexpr unsigned kMantissaBits = sizeof(Float) == sizeof(float) ? 23 : 52;
  static constexpr Integer kBias = sizeof(Float) == sizeof(float) ? 127 : 1023;
  static constexpr Integer kMagnitude = static_cast<Integer>(static_cast<UBit>(-1) >> 1U);
  static constexpr Integer kInfinity = (2 * kBias + 1) << kMantissaBits;
};
template <std::size_t kBytes = kVectorBytes>
using NarrowKind = NumberKind<float, std::int32_t, kBytes>;
using WideKind = NumberKind<double, std::int64_t, kVectorBytes>;

template <typename Lanes, typename Element>
inline Lanes load(const Element* at) {
  Lanes vector;
  __builtin_memcpy(&vector, at, sizeof vector);
  return vector;
}

template <typename Element, typename Lanes>
inline void store(Element* at, const Lanes& vector) {
  __builtin_memcpy(at, &vector, sizeof vector);
}

template <typename Lanes>
inline Lanes greater_of(const Lanes& one, const Lanes& other) {
  return one > other ? one : other;
}
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
// GCC 12 compares and blends at times where there is an instruction for it.
inline Doubles greater_of(const Doubles& one, const Doubles& other) {
  return __builtin_bit_cast(
      Doubles, _mm512_max_pd(__builtin_bit_cast(__m512d, one), __builtin_bit_cast(__m512d, other)));
}
#endif
template <typename Lanes>
inline Lanes lesser_of(const Lanes& one, const Lanes& other) {
  return one < other ? one : other;
}

template <typename Lanes>
inline constexpr std::size_t kLanesOf = sizeof(Lanes) / sizeof(Lanes{}[0]);

/// The greatest of all lanes and of `most`.
template <typename Lanes, typename Element>
inline Element most_of(const Lanes& lanes, Element most) {
  for (std::size_t i = 0; i < kLanesOf<Lanes>; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

template <typename Lanes>
inline std::uint64_t total(const Lanes& lanes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLanesOf<Lanes>; ++i) sum += static_cast<std::uint64_t>(lanes[i]);
  return sum;
}

/// Hits are -1 a lane.
template <typename Lanes>
inline std::uint64_t hits(const Lanes& lanes) {
  return -total(lanes);
}

inline Doubles masked(const Doubles& value, const Longs& mask) {
  return __builtin_bit_cast(Doubles, __builtin_bit_cast(Longs, value) & mask);
}

// GCC 12 converts a vector in two halves of its own accord, with moves around them.
inline Doubles widened(const Floats& values) {
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
  return __builtin_bit_cast(Doubles, _mm512_cvtps_pd(__builtin_bit_cast(__m256, values)));
#elif defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 32
  return __builtin_bit_cast(Doubles, _mm256_cvtps_pd(__builtin_bit_cast(__m128, values)));
#else
  return __builtin_convertvector(values, Doubles);
#endif
}
inline Doubles doubles_at(const float* at) { return widened(load<Floats>(at)); }
inline Doubles doubles_at(const double* at) { return load<Doubles>(at); }

/// The upper halves of all lanes.
inline Ints high_words(const Longs& value) {
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
  return __builtin_bit_cast(
      Ints, _mm512_cvtepi64_epi32(_mm512_srli_epi64(__builtin_bit_cast(__m512i, value), 32)));
#elif defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 32
  const __m256i order = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
  return __builtin_bit_cast(Ints,
                            _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                __builtin_bit_cast(__m256i, value), order)));
#else
  return __builtin_convertvector(value >> 32, Ints);
#endif
}

/// sum + one * other where the product takes no more bits than a double has, so that one rounding
/// is the same as two: a fused instruction, where there is one, gives the same bits.
inline Doubles plus_exact_product(const Doubles& sum, const Doubles& one, const Doubles& other) {
#if defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 64
  return __builtin_bit_cast(Doubles,
                            _mm512_fmadd_pd(__builtin_bit_cast(__m512d, one),
                                            __builtin_bit_cast(__m512d, other),
                                            __builtin_bit_cast(__m512d, sum)));
#elif defined(__x86_64__) && REPRO_CHECK_VECTOR_BYTES == 32
  return __builtin_bit_cast(Doubles,
                            _mm256_fmadd_pd(__builtin_bit_cast(__m256d, one),
                                            __builtin_bit_cast(__m256d, other),
                                            __builtin_bit_cast(__m256d, sum)));
#else
  return sum + one * other;
#endif
}

}  // namespace
}  // namespace repro_check::core::detail
