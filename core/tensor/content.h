// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/pinned.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// Tensor content in logical order (row-major, little-endian), read piece by piece, so that what
/// lies scattered in memory needs no copy of the whole.
class ContentBytes : Pinned {
 public:
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

/// One stored content, read in parts from any number of threads at once, so that no tensor has to
/// fit into memory.
class ContentParts : Pinned {
 public:
  virtual ~ContentParts() = default;

  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;

  /// Bytes [begin, begin + buffer.size()), which must exist, in `buffer` or where they lie anyway;
  /// lent for as long as both last.
  /// @throws Error{kDumpDamaged} when there are fewer, {kIo}
  [[nodiscard]] virtual std::span<const std::byte> read(std::uint64_t begin,
                                                        std::span<std::byte> buffer) const = 0;

  /// Whether nobody has to call verify().
  [[nodiscard]] virtual bool verified() const noexcept = 0;

  /// Whoever has read every part says what the digests of the chunks are: nothing that was made of
  /// the bytes may be believed before.
  /// @param chunks  of kDigestChunk bytes each, the last one shorter; one of a content without
  /// bytes
  /// @throws Error{kDumpDamaged} unless the content has its digest
  virtual void verify(std::span<const Digest> chunks) const = 0;
};

/// Content that is in memory, and right.
class MemoryParts final : public ContentParts {
 public:
  explicit MemoryParts(std::vector<std::byte> bytes) : own_(std::move(bytes)), bytes_(own_) {}
  /// @param bytes  borrowed
  explicit MemoryParts(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t begin,
                                                std::span<std::byte> buffer) const override {
    return bytes_.subspan(begin, buffer.size());
  }
  [[nodiscard]] bool verified() const noexcept override { return true; }
  void verify(std::span<const Digest> /*chunks*/) const override {}

 private:
  std::vector<std::byte> own_;
  std::span<const std::byte> bytes_;
};

}  // namespace repro_check::core
