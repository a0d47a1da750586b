// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/non_finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/digest/leaf_hash.h"
#include "core/tensor/dtype_table.h"
#include "core/tensor/float_format.h"
#include "core/tensor/stats_block.h"

namespace repro_check::core {
namespace {

/// Short enough for what comes next to be fetched while this is hashed.
constexpr std::size_t kBlock = std::size_t{4} << 10U;
/// Up to here the hash is faster in one go.
constexpr std::size_t kSmall = std::size_t{16} << 10U;

/// How a dtype spells what is no number.
struct Spelling {
  detail::OddLanes odd{0, 0, 0, 0};  ///< of width 0 where it has nothing of the kind
  std::uint64_t sign = 0;            ///< 0 where it has no infinity; one is `top`, with and without
};

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

NonFinite count_non_finite(Dtype dtype, std::span<const std::byte> content) noexcept {
  const Spelling spelling = spelling_of(dtype);
  return spelling.odd.width == 0 ? NonFinite{} : count(spelling, content);
}

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
    counts += count(spelling, block);
    hash.add(state, block.data(), block.size());
  }
  return {hash.finish(state), counts};
}

}  // namespace repro_check::core
