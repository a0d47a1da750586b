// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {

/// One entry being put together, header included. Kept between entries, so that its memory is
/// asked for once.
class EntryBuffer {
 public:
  void begin(EntryKind kind) noexcept {
    kind_ = kind;
    size_ = sizeof(EntryHeader);
  }

  template <typename T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(room(sizeof(T)), &value, sizeof(T));
  }

  void put_bytes(std::string_view text) {
    if (!text.empty()) std::memcpy(room(text.size()), text.data(), text.size());
  }

  void put_bytes(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
  }

  /// LEB128: seven bits a byte, the lowest first.
  void put_varint(std::uint64_t value) {
    constexpr unsigned kMore = 0x80;
    while (value >= kMore) {
      put(static_cast<std::uint8_t>(value | kMore));
      value >>= 7U;
    }
    put(static_cast<std::uint8_t>(value));
  }

  /// As put_varint, with the sign in the lowest bit: short for small numbers of either sign.
  void put_signed(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    put_varint((bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
  }

  void put_text(std::string_view text) {
    put_varint(text.size());
    put_bytes(text);
  }

  void put_sizes(const std::vector<std::int64_t>& sizes) {
    put_varint(sizes.size());
    for (const std::int64_t size : sizes) put_signed(size);
  }

  [[nodiscard]] EntryKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::string_view payload() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()) + sizeof(EntryHeader),
            size_ - sizeof(EntryHeader)};
  }

  /// The entry as it goes into the file, padding included; valid until the next begin() or put().
  std::span<const std::byte> finish();

 private:
  std::byte* room(std::size_t length) {
    if (size_ + length > bytes_.size()) [[unlikely]] {
      enlarge(length);
    }
    std::byte* at = bytes_.data() + size_;
    size_ += length;
    return at;
  }

  /// Apart, so that what runs for every member of a record stays short enough to be inlined.
  void enlarge(std::size_t length);

  EntryKind kind_ = EntryKind::kString;
  std::size_t size_ = sizeof(EntryHeader);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1024);
};

/// Checksum of what stands behind EntryHeader::checksum.
std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept;

}  // namespace repro_check::journal
