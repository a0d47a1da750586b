// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/text/short_text.h"
#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {

/// The longest a number gets as LEB128.
inline constexpr std::size_t kMostVarint = 10;

/// LEB128: seven bits a byte, the lowest first.
/// @param at  with room for kMostVarint bytes
/// @return behind what was written
inline std::byte* write_varint(std::byte* at, std::uint64_t value) noexcept {
  constexpr unsigned kMore = 0x80;
  while (value >= kMore) {
    *at++ = static_cast<std::byte>(static_cast<std::uint8_t>(value | kMore));
    value >>= 7U;
  }
  *at++ = static_cast<std::byte>(value);
  return at;
}

/// With the sign in the lowest bit: short for small numbers of either sign.
constexpr std::uint64_t signed_bits(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0);
}

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

  void put_varint(std::uint64_t value) { end_at(write_varint(reserve(kMostVarint), value)); }
  void put_signed(std::int64_t value) { put_varint(signed_bits(value)); }

  void put_text(std::string_view text) {
    std::byte* at = write_varint(reserve(kMostVarint + text.size()), text.size());
    end_at(core::copy_text(at, text));
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
  friend class EntryPen;

  std::byte* reserve(std::size_t most) {
    if (size_ + most > bytes_.size()) [[unlikely]] {
      enlarge(most);
    }
    return bytes_.data() + size_;
  }
  void end_at(const std::byte* end) noexcept {
    size_ = static_cast<std::size_t>(end - bytes_.data());
  }

  std::byte* room(std::size_t length) {
    std::byte* at = reserve(length);
    size_ += length;
    return at;
  }

  /// Apart, so that what runs for every member of a record stays short enough to be inlined.
  void enlarge(std::size_t length);

  EntryKind kind_ = EntryKind::kString;
  std::size_t size_ = sizeof(EntryHeader);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1024);
};

/// Adds members to an entry for whose room it has asked once: what runs for every member of every
/// record need not look again each time. The entry has them when the pen is gone.
class EntryPen {
 public:
  /// @param most  bytes that are written at most
  EntryPen(EntryBuffer& into, std::size_t most) : into_(into), at_(into.reserve(most)) {}
  EntryPen(const EntryPen&) = delete;
  EntryPen& operator=(const EntryPen&) = delete;
  EntryPen(EntryPen&&) = delete;
  EntryPen& operator=(EntryPen&&) = delete;
  ~EntryPen() { into_.end_at(at_); }

  template <typename T>
  void put(T value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(at_, &value, sizeof(T));
    at_ += sizeof(T);
  }
  void put_varint(std::uint64_t value) noexcept { at_ = write_varint(at_, value); }
  void put_signed(std::int64_t value) noexcept { put_varint(signed_bits(value)); }

 private:
  EntryBuffer& into_;
  std::byte* at_;
};

/// Checksum of what stands behind EntryHeader::checksum.
std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept;

}  // namespace repro_check::journal
