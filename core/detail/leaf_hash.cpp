// SPDX-License-Identifier: Apache-2.0
#include "core/detail/leaf_hash.h"

#include <array>

#include "core/detail/instruction_set.h"

namespace repro_check::core::detail {

std::span<const LeafHash> runnable_leaf_hashes() noexcept {
  static constexpr std::array<LeafHash, 3> kFastestFirst{
      leaf_hash_avx512, leaf_hash_avx2, leaf_hash_portable};
  return std::span(kFastestFirst).subspan(first_runnable());
}

}  // namespace repro_check::core::detail
