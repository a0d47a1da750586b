// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/digest/leaf_hash.h"
#include "core/error.h"
#include "core/tensor/default_arithmetic.h"
#include "core/tensor/float_format.h"
#include "core/tensor/stats_block.h"

namespace repro_check::core {
namespace {

using detail::BlockStats;
using detail::kStatsBlock;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void put_together(const LeafStats& next, LeafStats& into) {
  into.found.min = std::min(into.found.min, next.found.min);
  into.found.max = std::max(into.found.max, next.found.max);
  into.found.zeros += next.found.zeros;
  into.found.nans += next.found.nans;
  into.found.positive_infs += next.found.positive_infs;
  into.found.negative_infs += next.found.negative_infs;
  into.found.subnormals += next.found.subnormals;
  if (next.finite == 0) return;
  if (into.finite == 0) {
    into.finite = next.finite;
    into.mean = next.mean;
    into.squares = next.squares;
    return;
  }
  const auto mine = static_cast<double>(into.finite);
  const auto theirs = static_cast<double>(next.finite);
  const double share = theirs / (mine + theirs);
  const double distance = next.mean - into.mean;
  into.squares += next.squares + distance * distance * mine * share;
  into.mean += distance * share;
  into.finite += next.finite;
}

LeafStats nothing() {
  LeafStats none;
  none.found.min = std::numeric_limits<double>::infinity();
  none.found.max = -none.found.min;
  return none;
}

LeafStats as_leaf(const BlockStats& block) {
  LeafStats leaf;
  leaf.found.min = block.min;
  leaf.found.max = block.max;
  leaf.found.zeros = block.zeros;
  leaf.found.nans = block.nans;
  leaf.found.positive_infs = block.positive_infs;
  leaf.found.negative_infs = block.negative_infs;
  leaf.found.subnormals = block.subnormals;
  leaf.finite = block.finite;
  leaf.mean = block.mean;
  leaf.squares = block.squares;
  return leaf;
}

const detail::StatsLoops& loops() {
  static const detail::StatsLoops fastest = detail::runnable_stats_loops().front();
  return fastest;
}

const detail::LeafHash& hash() {
  static const detail::LeafHash fastest = detail::runnable_leaf_hashes().front();
  return fastest;
}

/// A leaf to walk through, and its hash where one is asked for: every block is hashed while it is
/// still in the cache.
struct Walk {
  std::span<const std::byte> leaf;
  detail::LeafHashState* state = nullptr;

  void done(std::size_t begin, std::size_t size) const {
    if (state != nullptr) hash().add(*state, leaf.data() + begin, size);
  }
};

BlockStats block_of(std::span<const float> values, double normal) {
  return loops().narrow(values.data(), values.size(), static_cast<float>(normal));
}
BlockStats block_of(std::span<const double> values, double normal) {
  return loops().wide(values.data(), values.size(), normal);
}

/// Block by block. `widen` makes numbers of `kNumbers` a raw element, exactly where they have that.
template <typename Number, typename Raw, std::size_t kNumbers = 1, typename Widen>
LeafStats over(const Walk& walk, double normal, Widen widen) {
  constexpr std::size_t kRaws = kStatsBlock / kNumbers;
  LeafStats total = nothing();
  std::array<Raw, kRaws> raws;
  std::array<Number, kStatsBlock> numbers;
  const std::size_t count = walk.leaf.size() / sizeof(Raw);
  for (std::size_t begin = 0; begin < count; begin += kRaws) {
    const std::size_t size = std::min(kRaws, count - begin);
    std::memcpy(raws.data(), walk.leaf.data() + begin * sizeof(Raw), size * sizeof(Raw));
    for (std::size_t i = 0; i < size; ++i) widen(raws[i], &numbers[i * kNumbers]);
    put_together(as_leaf(block_of(std::span<const Number>(numbers).first(size * kNumbers), normal)),
                 total);
    walk.done(begin * sizeof(Raw), size * sizeof(Raw));
  }
  return total;
}

/// Integers of up to 24 bits are exact in float, larger ones go through double.
template <typename Raw>
LeafStats over_integers(const Walk& walk) {
  using Number = std::conditional_t<(sizeof(Raw) > 2), double, float>;
  return over<Number, Raw>(
      walk, 0, [](Raw raw, Number* into) { *into = static_cast<Number>(raw); });
}

template <typename Number>
LeafStats over_floats(const Walk& walk) {
  const auto normal = static_cast<double>(std::numeric_limits<Number>::min());
  if (reinterpret_cast<std::uintptr_t>(walk.leaf.data()) % alignof(Number) != 0) {
    return over<Number, Number>(walk, normal, [](Number raw, Number* into) { *into = raw; });
  }
  const std::span<const Number> numbers(reinterpret_cast<const Number*>(walk.leaf.data()),
                                        walk.leaf.size() / sizeof(Number));
  LeafStats total = nothing();
  for (std::size_t begin = 0; begin < numbers.size(); begin += kStatsBlock) {
    const std::size_t size = std::min(kStatsBlock, numbers.size() - begin);
    put_together(as_leaf(block_of(numbers.subspan(begin, size), normal)), total);
    walk.done(begin * sizeof(Number), size * sizeof(Number));
  }
  return total;
}

LeafStats over_halves(const Walk& walk) {
  return over<float, std::uint16_t>(
      walk, 0x1p-14, [](std::uint16_t raw, float* into) { *into = half_to_float(raw); });
}

LeafStats over_bfloats(const Walk& walk) {
  return over<float, std::uint16_t>(
      walk,
      static_cast<double>(std::numeric_limits<float>::min()),
      [](std::uint16_t raw, float* into) { *into = bfloat_to_float(raw); });
}

LeafStats over_byte_floats(Dtype dtype, const Walk& walk, double normal) {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = static_cast<float>(decode_float(dtype, code));
  }
  return over<float, std::uint8_t>(
      walk, normal, [&](std::uint8_t code, float* into) { *into = values[code]; });
}

/// Two of one sign, two exponent bits (bias 1) and a mantissa bit, the first in the low half.
LeafStats over_nibbles(const Walk& walk) {
  constexpr std::array<float, 16> kValues{
      0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  return over<float, std::uint8_t, 2>(walk, 1.0, [&](std::uint8_t pair, float* into) {
    into[0] = kValues[pair & 0xFU];
    into[1] = kValues[pair >> 4U];
  });
}

LeafStats walk_through(Dtype dtype, const Walk& walk) {
  const detail::DefaultArithmetic arithmetic;
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUInt8:
    case Dtype::kQUInt8:
      return over_integers<std::uint8_t>(walk);
    case Dtype::kInt8:
    case Dtype::kQInt8:
      return over_integers<std::int8_t>(walk);
    case Dtype::kUInt16:
      return over_integers<std::uint16_t>(walk);
    case Dtype::kInt16:
      return over_integers<std::int16_t>(walk);
    case Dtype::kUInt32:
      return over_integers<std::uint32_t>(walk);
    case Dtype::kInt32:
    case Dtype::kQInt32:
      return over_integers<std::int32_t>(walk);
    case Dtype::kUInt64:
      return over_integers<std::uint64_t>(walk);
    case Dtype::kInt64:
      return over_integers<std::int64_t>(walk);
    case Dtype::kFloat32:
    case Dtype::kComplex64:
      return over_floats<float>(walk);
    case Dtype::kFloat64:
    case Dtype::kComplex128:
      return over_floats<double>(walk);
    case Dtype::kFloat16:
    case Dtype::kComplex32:
      return over_halves(walk);
    case Dtype::kBFloat16:
      return over_bfloats(walk);
    case Dtype::kFloat8E4M3FN:
      return over_byte_floats(dtype, walk, 0x1p-6);
    case Dtype::kFloat8E5M2:
      return over_byte_floats(dtype, walk, 0x1p-14);
    case Dtype::kFloat8E4M3FNUZ:
      return over_byte_floats(dtype, walk, 0x1p-7);
    case Dtype::kFloat8E5M2FNUZ:
      return over_byte_floats(dtype, walk, 0x1p-15);
    case Dtype::kFloat8E8M0FNU:
      return over_byte_floats(dtype, walk, 0);
    case Dtype::kFloat4E2M1FNX2:
      return over_nibbles(walk);
    case Dtype::kUnknown:
      break;
  }
  throw Error(ErrorKind::kUnsupportedDtype, "a tensor of unknown dtype has no values");
}

}  // namespace

LeafStats leaf_stats(Dtype dtype, std::span<const std::byte> leaf) {
  return walk_through(dtype, {leaf});
}

LeafSummary summarise_leaf(Dtype dtype, std::span<const std::byte> leaf) {
  detail::LeafHashState state;
  hash().begin(state);
  LeafSummary summary;
  summary.stats = walk_through(dtype, {leaf, &state});
  summary.digest = hash().finish(state);
  return summary;
}

TensorStats stats_of_leaves(std::span<const LeafStats> leaves) {
  LeafStats total = nothing();
  for (const LeafStats& leaf : leaves) put_together(leaf, total);
  TensorStats stats = total.found;
  if (stats.min > stats.max) stats.min = stats.max = kNan;
  const auto count = static_cast<double>(total.finite);
  const bool any = total.finite > 0;
  stats.mean = any ? total.mean : kNan;
  stats.std = any ? std::sqrt(total.squares / count) : kNan;
  stats.l2 = any ? std::sqrt(total.squares + count * total.mean * total.mean) : kNan;
  return stats;
}

TensorStats tensor_stats(Dtype dtype, std::span<const std::byte> content) {
  std::vector<LeafStats> leaves;
  for (std::size_t begin = 0; begin < content.size(); begin += kDigestChunk) {
    leaves.push_back(
        leaf_stats(dtype, content.subspan(begin, std::min(kDigestChunk, content.size() - begin))));
  }
  if (leaves.empty()) leaves.push_back(leaf_stats(dtype, {}));
  return stats_of_leaves(leaves);
}

}  // namespace repro_check::core
