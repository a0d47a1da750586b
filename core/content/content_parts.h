// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/digest/digest.h"

namespace repro_check::core {

/// One stored content, read in parts from any number of threads at once, so that no tensor has to
/// fit into memory.
class ContentParts {
 public:
  ContentParts() = default;
  ContentParts(const ContentParts&) = delete;
  ContentParts& operator=(const ContentParts&) = delete;
  ContentParts(ContentParts&&) = delete;
  ContentParts& operator=(ContentParts&&) = delete;
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
