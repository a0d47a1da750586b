// SPDX-License-Identifier: Apache-2.0
#include "core/digest/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/system/vectors.h"

namespace repro_check::core::detail {
namespace {

// NOLINTNEXTLINE(misc-redundant-expression): the two are equal today
static_assert(sizeof(XXH3_state_t) <= sizeof(LeafHashState) &&
              alignof(XXH3_state_t) <= alignof(LeafHashState));

Digest as_digest(const XXH128_hash_t& hash) noexcept { return {hash.high64, hash.low64}; }

XXH3_state_t* xxh(LeafHashState& state) noexcept { return reinterpret_cast<XXH3_state_t*>(&state); }

Digest whole(const std::byte* data, std::size_t size) noexcept {
  return as_digest(XXH3_128bits(data, size));
}

void begin(LeafHashState& state) noexcept {
  // The library never reads a member of a state that it has not reset, but for this one.
  xxh(state)->seed = 0;
  XXH3_128bits_reset(xxh(state));
}

void add(LeafHashState& state, const std::byte* data, std::size_t size) noexcept {
  XXH3_128bits_update(xxh(state), data, size);
}

Digest finish(LeafHashState& state) noexcept { return as_digest(XXH3_128bits_digest(xxh(state))); }

constexpr LeafHash kFunctions{whole, begin, add, finish};

}  // namespace

LeafHash REPRO_CHECK_OF_ISA(leaf_hash)() noexcept { return kFunctions; }

}  // namespace repro_check::core::detail
