// SPDX-License-Identifier: Apache-2.0
#include "core/digest/leaf_hash.h"

#include <array>

#include "core/system/instruction_set.h"

namespace repro_check::core::detail {

std::span<const LeafHash> runnable_leaf_hashes() noexcept {
  static const std::array<LeafHash, 3> fastest_first{
      avx512_leaf_hash(), avx2_leaf_hash(), portable_leaf_hash()};
  return std::span(fastest_first).subspan(first_runnable());
}

}  // namespace repro_check::core::detail
