// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/digest/digest.h"
#include "core/digest/leaf_hash.h"

namespace repro_check::core {

/// digest_bytes() over bytes that come piece by piece, without a copy of them.
class DigestStream {
 public:
  DigestStream();

  void add(std::span<const std::byte> bytes);

  /// Of all that was added. To be called once.
  [[nodiscard]] Digest finish();

 private:
  void close_leaf();

  detail::LeafHashState state_;
  std::size_t in_leaf_ = 0;
  std::vector<Digest> leaves_;
};

}  // namespace repro_check::core
