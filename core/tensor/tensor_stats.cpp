// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor_stats.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/system/instruction_set.h"
#include "core/system/pinned.h"

namespace repro_check::core {

namespace {

/// Hashed, and counted while it is at hand: by pages both together are as fast from memory as the
/// hash alone.
constexpr std::size_t kBlock = std::size_t{4} << 10U;
/// Up to here the hash is faster in one go.
constexpr std::size_t kSmall = std::size_t{16} << 10U;

}  // namespace

Spelling spelling_of(Dtype dtype) noexcept {
  const std::size_t width = element_size(part_dtype(dtype));
  const FloatLayout& layout = row_of(part_dtype(dtype)).layout;
  const std::uint64_t all = layout.sign() - 1;
  switch (layout.ends) {
    case FloatEnds::kNone:
      return {};
    case FloatEnds::kIeee:
      return {{width, layout.special(), 0, layout.special()}, layout.sign()};
    case FloatEnds::kOneNan:
      return {{width, all, 0, all}};
    case FloatEnds::kFnuz:
      return {{width, 0xFF, 0xFF, 0x7F}};
    case FloatEnds::kPowers:
      return {{width, 0xFF, 0x80, 0x7F}};
  }
  return {};
}

namespace {

/// Every element by itself, where some are no numbers.
template <typename Lane>
NonFinite sort_out(const Spelling& spelling, std::span<const std::byte> bytes) noexcept {
  const auto mask = static_cast<Lane>(spelling.odd.mask);
  const auto flip = static_cast<Lane>(spelling.odd.flip);
  const auto top = static_cast<Lane>(spelling.odd.top);
  const auto minus = static_cast<Lane>(top | spelling.sign);
  NonFinite counts;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Lane)) {
    Lane lane;
    std::memcpy(&lane, bytes.data() + at, sizeof lane);
    counts.nans += static_cast<Lane>((lane & mask) ^ flip) == top ? 1U : 0U;
    counts.positive_infs += lane == top ? 1U : 0U;
    counts.negative_infs += lane == minus ? 1U : 0U;
  }
  if (spelling.sign == 0) return {counts.nans, 0, 0};
  counts.nans -= counts.infs();
  return counts;
}

NonFinite count(const Spelling& spelling, std::span<const std::byte> bytes) noexcept {
  if (!detail::fastest_stats_loops().has_odd(bytes.data(), bytes.size(), spelling.odd)) return {};
  switch (spelling.odd.width) {
    case 1:
      return sort_out<std::uint8_t>(spelling, bytes);
    case 2:
      return sort_out<std::uint16_t>(spelling, bytes);
    case 4:
      return sort_out<std::uint32_t>(spelling, bytes);
    default:
      return sort_out<std::uint64_t>(spelling, bytes);
  }
}

}  // namespace

CountedLeaf count_leaf(Dtype dtype, std::span<const std::byte> leaf) noexcept {
  const Spelling spelling = spelling_of(dtype);
  if (spelling.odd.width == 0) return {digest_leaf(leaf), {}};
  if (leaf.size() <= kSmall) return {digest_leaf(leaf), count(spelling, leaf)};
  const detail::LeafHash& hash = detail::fastest_leaf_hash();
  detail::LeafHashState state;
  hash.begin(state);
  NonFinite counts;
  for (std::size_t begin = 0; begin < leaf.size(); begin += kBlock) {
    const auto block = leaf.subspan(begin, std::min(kBlock, leaf.size() - begin));
    hash.add(state, block.data(), block.size());
    counts += count(spelling, block);
  }
  return {hash.finish(state), counts};
}

namespace {

using detail::kStatsBlock;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void put_together(const LeafStats& next, LeafStats& into) {
  into.min = std::min(into.min, next.min);
  into.max = std::max(into.max, next.max);
  into.zeros += next.zeros;
  into.nans += next.nans;
  into.positive_infs += next.positive_infs;
  into.negative_infs += next.negative_infs;
  into.subnormals += next.subnormals;
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
  LeafStats none{};
  none.min = std::numeric_limits<double>::infinity();
  none.max = -none.min;
  return none;
}

/// A leaf to walk through, and its hash where one is asked for: every block is hashed while it is
/// still in the cache.
struct Walk {
  std::span<const std::byte> leaf;
  detail::LeafHashState* state = nullptr;

  void done(std::size_t begin, std::size_t size) const {
    if (state != nullptr) detail::fastest_leaf_hash().add(*state, leaf.data() + begin, size);
  }
};

LeafStats block_of(std::span<const float> values, double normal) {
  return detail::fastest_stats_loops().narrow(
      values.data(), values.size(), static_cast<float>(normal));
}
LeafStats block_of(std::span<const double> values, double normal) {
  return detail::fastest_stats_loops().wide(values.data(), values.size(), normal);
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
    put_together(block_of(std::span<const Number>(numbers).first(size * kNumbers), normal), total);
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
    put_together(block_of(numbers.subspan(begin, size), normal), total);
    walk.done(begin * sizeof(Number), size * sizeof(Number));
  }
  return total;
}

LeafStats over_byte_floats(Dtype dtype, const Walk& walk) {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = static_cast<float>(decode_float(dtype, code));
  }
  return over<float, std::uint8_t>(walk,
                                   row_of(dtype).layout.min_normal(),
                                   [&](std::uint8_t code, float* into) { *into = values[code]; });
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

/// Rounding to nearest and true subnormals on this thread for as long as it lives, whatever the
/// audited program has set.
#if defined(__SSE2__)
class DefaultArithmetic : Pinned {
 public:
  DefaultArithmetic() noexcept { _mm_setcsr(0x1F80); }
  ~DefaultArithmetic() { _mm_setcsr(found_); }

 private:
  unsigned found_ = _mm_getcsr();
};
#else
struct DefaultArithmetic {};
#endif

LeafStats walk_through(Dtype dtype, const Walk& walk) {
  [[maybe_unused]] const DefaultArithmetic arithmetic;
  LeafStats stats{};
  if (visit_integer(dtype, [&](auto zero) { stats = over_integers<decltype(zero)>(walk); })) {
    return stats;
  }
  const Dtype part = part_dtype(dtype);
  const auto normal = [&] { return row_of(part).layout.min_normal(); };
  switch (part) {
    case Dtype::kFloat32:
      return over_floats<float>(walk);
    case Dtype::kFloat64:
      return over_floats<double>(walk);
    case Dtype::kFloat16:
      return over<float, std::uint16_t>(
          walk, normal(), [](std::uint16_t raw, float* into) { *into = half_to_float(raw); });
    case Dtype::kBFloat16:
      return over<float, std::uint16_t>(
          walk, normal(), [](std::uint16_t raw, float* into) { *into = bfloat_to_float(raw); });
    case Dtype::kFloat4E2M1FNX2:
      return over_nibbles(walk);
    case Dtype::kUnknown:
      throw Error(ErrorKind::kUnsupportedDtype, "a tensor of unknown dtype has no values");
    default:
      return over_byte_floats(dtype, walk);
  }
}

}  // namespace

std::span<const detail::StatsLoops> detail::runnable_stats_loops() noexcept {
  static const std::array<StatsLoops, 3> loops{
      avx512_stats_loops(), avx2_stats_loops(), portable_stats_loops()};
  return runnable(loops);
}

const detail::StatsLoops& detail::fastest_stats_loops() noexcept {
  static const StatsLoops& fastest = runnable_stats_loops().front();
  return fastest;
}

LeafStats leaf_stats(Dtype dtype, std::span<const std::byte> leaf) {
  return walk_through(dtype, {leaf});
}

LeafSummary summarise_leaf(Dtype dtype, std::span<const std::byte> leaf) {
  const detail::LeafHash& hash = detail::fastest_leaf_hash();
  detail::LeafHashState state;
  hash.begin(state);
  LeafSummary summary;
  summary.stats = walk_through(dtype, {leaf, &state});
  summary.digest = hash.finish(state);
  return summary;
}

TensorStats stats_of_leaves(std::span<const LeafStats> leaves) {
  LeafStats total = nothing();
  for (const LeafStats& leaf : leaves) put_together(leaf, total);
  TensorStats stats{.min = total.min,
                    .max = total.max,
                    .zeros = total.zeros,
                    .nans = total.nans,
                    .positive_infs = total.positive_infs,
                    .negative_infs = total.negative_infs,
                    .subnormals = total.subnormals};
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
