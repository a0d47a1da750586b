// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/digest.h"

namespace repro_check::store {

/// core::digest_bytes over bytes that come piece by piece.
class TreeHasher {
 public:
  void update(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (leaf_.size() == core::kDigestChunk) close_leaf();  // only once more bytes follow it
      const std::size_t taken = std::min(bytes.size(), core::kDigestChunk - leaf_.size());
      leaf_.insert(leaf_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
      bytes = bytes.subspan(taken);
    }
  }

  [[nodiscard]] core::Digest finish() {
    close_leaf();
    return core::digest_of_leaves(leaves_);
  }

 private:
  void close_leaf() {
    leaves_.push_back(core::digest_leaf(leaf_));
    leaf_.clear();
  }

  std::vector<std::byte> leaf_;
  std::vector<core::Digest> leaves_;
};

}  // namespace repro_check::store
