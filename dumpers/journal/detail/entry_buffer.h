// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/text/short_text.h"
#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {

/// LEB128: seven bits a byte, the lowest first.
/// @param at  with room for ten bytes
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

/// One entry being put together, header included. Kept between entries, so that its memory is
/// asked for once.
class EntryBuffer {
 public:
  static constexpr bool kReads = false;

  void begin(EntryKind kind) noexcept {
    kind_ = kind;
    size_ = sizeof(EntryHeader);
  }

  /// Adds fields, each spelled as its type has it; ByteReader is the inverse. Room for all of them
  /// is asked for once: this runs for every member of every record.
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    std::byte* at = reserve((most_bytes(fields) + ...));
    ((at = write(at, fields)), ...);
    size_ = static_cast<std::size_t>(at - bytes_.data());
  }

  void put_bytes(std::span<const std::byte> bytes) {
    std::byte* to = reserve(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void put_bytes(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  [[nodiscard]] EntryKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::string_view payload() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()) + sizeof(EntryHeader),
            size_ - sizeof(EntryHeader)};
  }

  /// The entry as it goes into the file, padding included; valid until the next begin() or field.
  std::span<const std::byte> finish();

 private:
  static constexpr std::size_t kMostVarint = 10;

  static std::size_t most_bytes(std::string_view text) noexcept {
    return kMostVarint + text.size();
  }
  static std::size_t most_bytes(const std::vector<std::int64_t>& sizes) noexcept {
    return kMostVarint + std::span(sizes).size_bytes();
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::is_same_v<T, std::string_view>)static constexpr std::size_t
      most_bytes(const T& /*field*/) noexcept {
    return sizeof(T) + kMostVarint - sizeof(std::uint64_t);
  }

  static std::byte* write(std::byte* at, std::string_view text) noexcept {
    return core::copy_text(write_varint(at, text.size()), text);
  }
  static std::byte* write(std::byte* at, const std::vector<std::int64_t>& sizes) noexcept {
    at = write_varint(at, sizes.size());
    for (const std::int64_t size : sizes) at = write(at, size);
    return at;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::is_same_v<T, std::string_view>)static std::byte* write(std::byte* at,
                                                                    const T& field) noexcept {
    if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
      return write_varint(at, field);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      // With the sign in the lowest bit: short for small numbers of either sign.
      return write_varint(
          at, (static_cast<std::uint64_t>(field) << 1U) ^ (field < 0 ? ~std::uint64_t{0} : 0));
    } else {
      std::memcpy(at, &field, sizeof(T));
      return at + sizeof(T);
    }
  }

  std::byte* reserve(std::size_t most) {
    if (size_ + most > bytes_.size()) [[unlikely]] {
      enlarge(most);
    }
    return bytes_.data() + size_;
  }

  /// Apart, so that what runs for every member of a record stays short enough to be inlined.
  void enlarge(std::size_t length);

  EntryKind kind_ = EntryKind::kFail;
  std::size_t size_ = sizeof(EntryHeader);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1024);
};

/// Checksum of what stands behind EntryHeader::checksum.
std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept;

}  // namespace repro_check::journal
