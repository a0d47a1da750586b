// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "core/digest/digest.h"

namespace repro_check::core {

/// Tensor content in logical order (row-major, little-endian), read piece by piece, so that what
/// lies scattered in memory needs no copy of the whole.
class ContentBytes {
 public:
  ContentBytes() = default;
  ContentBytes(const ContentBytes&) = delete;
  ContentBytes& operator=(const ContentBytes&) = delete;
  ContentBytes(ContentBytes&&) = delete;
  ContentBytes& operator=(ContentBytes&&) = delete;
  virtual ~ContentBytes() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;

  /// Copies bytes [begin, begin + into.size()).
  /// @param begin  a multiple of the element's size, as is into.size()
  virtual void read(std::size_t begin, std::span<std::byte> into) const = 0;

  /// Digest of what was handed out, where that may be something else than was digested before,
  /// because a thread of the model writes the tensor meanwhile. Known once every byte has been
  /// read, each once and in order.
  [[nodiscard]] virtual std::optional<Digest> digest_read() const { return std::nullopt; }
};

/// Content that lies in one piece.
class SpanBytes final : public ContentBytes {
 public:
  /// @param bytes  borrowed
  explicit SpanBytes(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] std::size_t size() const noexcept override { return bytes_.size(); }
  void read(std::size_t begin, std::span<std::byte> into) const override {
    std::ranges::copy(bytes_.subspan(begin, into.size()), into.begin());
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace repro_check::core
