// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/trace/block_row.h"
#include "dumpers/capture/tensors/digest_ring.h"

namespace repro_check::capture {

/// A core::BorderDigest of contents that may still be on their way.
class BorderReading {
 public:
  /// @param content  null = `digest` is known
  void add(const core::Digest& digest,
           const Awaited& content,
           core::Dtype dtype,
           std::span<const std::int64_t> shape) {
    if (content == nullptr && parts_.empty()) {
      digest_.add(digest, dtype, shape);
    } else {
      parts_.push_back({digest, content, dtype, {shape.begin(), shape.end()}});
    }
  }
  /// Where there is nothing, as of a module that returns None, that is what can be compared.
  void stand_for_nothing() { is_nothing_ = true; }

  [[nodiscard]] bool is_settled() const noexcept { return parts_.empty(); }
  /// Something that has not come; null = all has.
  [[nodiscard]] Awaited next() const {
    for (const Part& part : parts_) {
      if (is_on_the_way(part.content)) return part.content;
    }
    return nullptr;
  }

  /// Once all has come, whether there is something that could not be read.
  [[nodiscard]] bool is_unread() const {
    return std::ranges::any_of(parts_, [](const Part& part) {
      return part.content != nullptr && part.content->state != AwaitedContent::State::kRead;
    });
  }
  /// Once all has come. Empty where nothing was added, or not all could be read.
  [[nodiscard]] std::optional<core::Digest> finish() const {
    if (is_unread()) return std::nullopt;
    core::BorderDigest digest = digest_;
    for (const Part& part : parts_) {
      const AwaitedContent* content = part.content.get();
      digest.add(
          content != nullptr ? content->summary.digest : part.digest, part.dtype, part.shape);
    }
    const std::optional<core::Digest> found = digest.finish();
    return !found && is_nothing_ ? core::digest_bytes("") : found;
  }

 private:
  struct Part {
    core::Digest digest;
    Awaited content;
    core::Dtype dtype;
    std::vector<std::int64_t> shape;
  };
  core::BorderDigest digest_;
  std::vector<Part> parts_;  ///< from the first on that was on its way
  bool is_nothing_ = false;
};

}  // namespace repro_check::capture
