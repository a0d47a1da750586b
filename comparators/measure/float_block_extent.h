// SPDX-License-Identifier: Apache-2.0
// What a block holds, found out before it is measured. Everything here has internal linkage on
// purpose: see float_block.h.
#pragma once

#include "comparators/measure/float_block_vectors.h"

namespace repro_check::comparators::detail {
namespace {

/// What a block holds, as far as it decides how its pairs are counted.
enum class BlockKind {
  kPlain,  ///< both of a pair of one sign, no zero, subnormal or greatest number: much that is
           ///< counted cannot be there
  kFinite,
  kSpecial,  ///< a NaN or an infinity
};

template <typename Bits>
struct Extent {
  Bits signs{};
  Bits least;
  Bits most{};

  explicit Extent(const Bits& greatest) : least(greatest) {}

  void add(const Bits& from, const Bits& to, const Bits& magnitude) {
    signs |= from ^ to;
    const Bits left = from & magnitude;
    const Bits right = to & magnitude;
    least = lesser_of(least, lesser_of(left, right));
    most = greater_of(most, greater_of(left, right));
  }

  /// @param from, before  magnitudes that plain numbers have, as bits
  template <typename Number>
  [[nodiscard]] BlockKind kind(Number from, Number before, Number infinity) const {
    Number sign = 0;
    bool inside = true;
    for (std::size_t i = 0; i < sizeof(Bits) / sizeof(Number); ++i) {
      if (most[i] >= infinity) return BlockKind::kSpecial;
      sign |= signs[i];
      inside = inside && least[i] >= from && most[i] < before;
    }
    return inside && sign >= 0 ? BlockKind::kPlain : BlockKind::kFinite;
  }
};

}  // namespace
}  // namespace repro_check::comparators::detail
