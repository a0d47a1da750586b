// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/key_table.h"

#include <array>
#include <span>

namespace repro_check::comparators::detail {

core::Digest KeyTable::digest_of(std::string_view name) noexcept {
  return core::digest_leaf(std::as_bytes(std::span(name)));
}

std::uint32_t KeyTable::intern(const core::OpRecord& head,
                               const core::Digest& module,
                               const core::Digest& op) {
  const std::array<std::uint64_t, 9> parts{head.rank,
                                           head.lane,
                                           head.step,
                                           static_cast<std::uint64_t>(head.phase),
                                           head.depth,
                                           module.high,
                                           module.low,
                                           op.high,
                                           op.low};
  const core::Digest key = core::digest_leaf(std::as_bytes(std::span(parts)));
  const auto known = static_cast<std::uint32_t>(keys_.size());
  const std::uint32_t id = slots_.find_or_add(
      key.low,
      known,
      [&](std::uint32_t other) { return keys_[other] == key; },
      [&](std::uint32_t other) { return keys_[other].low; });
  if (id == known) keys_.push_back(key);
  return id;
}

}  // namespace repro_check::comparators::detail
