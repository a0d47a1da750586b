// SPDX-License-Identifier: Apache-2.0
#include "core/digest/digest_stream.h"

#include <algorithm>

namespace repro_check::core {
DigestStream::DigestStream() { detail::fastest_leaf_hash().begin(state_); }

void DigestStream::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (in_leaf_ == kDigestChunk) close_leaf();  // only once more bytes follow it
    const std::size_t taken = std::min(bytes.size(), kDigestChunk - in_leaf_);
    detail::fastest_leaf_hash().add(state_, bytes.data(), taken);
    in_leaf_ += taken;
    bytes = bytes.subspan(taken);
  }
}

Digest DigestStream::finish() {
  close_leaf();
  return digest_of_leaves(leaves_);
}

void DigestStream::close_leaf() {
  leaves_.push_back(detail::fastest_leaf_hash().finish(state_));
  detail::fastest_leaf_hash().begin(state_);
  in_leaf_ = 0;
}

}  // namespace repro_check::core
