// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/trace/op_record.h"

namespace repro_check::store {

/// Which contents are left out because of DumpWriterOptions::max_bytes, and where that shows.
class ByteLimit {
 public:
  explicit ByteLimit(std::optional<std::uint64_t> most) noexcept : most_(most) {}

  /// Whether `more` bytes may be stored beside `stored`; an answer of no is remembered.
  bool admits(std::uint64_t stored, std::uint64_t more) noexcept {
    if (!most_ || (stored <= *most_ && more <= *most_ - stored)) return true;
    refused_ = true;
    return false;
  }

  /// Told of every record that is appended.
  void note(const core::OpRecord& record) {
    if (!refused_ || (reached_at_ && *reached_at_ < record.index)) return;
    const bool lacks = std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
      return tensor.state == core::ContentState::kHashed && !tensor.stored;
    });
    if (lacks) reached_at_ = record.index;
  }

  /// The lowest op index of a record that lacks bytes.
  [[nodiscard]] std::optional<std::uint64_t> reached_at() const noexcept { return reached_at_; }

 private:
  std::optional<std::uint64_t> most_;
  bool refused_ = false;
  std::optional<std::uint64_t> reached_at_;
};

}  // namespace repro_check::store
