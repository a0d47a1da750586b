// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/detail/leaf_hash.h"

namespace repro_check::core::detail {

Digest leaf_hash_portable(const std::byte* data, std::size_t size) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.high64, hash.low64};
}

}  // namespace repro_check::core::detail
