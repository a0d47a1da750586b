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

#include "core/error.h"

namespace repro_check::journal {

/// Takes a payload apart. Every step is checked against what is left, and a count against the
/// bytes its items need at least, before memory is asked for.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] std::size_t size() const noexcept { return left_.size(); }

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::uint64_t varint() {
    constexpr unsigned kBits = 64;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < kBits; shift += 7U) {
      const auto byte = get<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80U) return value;
    }
    nonsense("holds a number without end");
  }

  std::int64_t signed_varint() {
    const std::uint64_t bits = varint();
    return static_cast<std::int64_t>((bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
  }

  std::uint32_t varint32() {
    const std::uint64_t value = varint();
    if (value > UINT32_MAX) nonsense("holds a number that is too large");
    return static_cast<std::uint32_t>(value);
  }

  std::size_t count(std::size_t least_item_size) {
    const std::uint64_t count = varint();
    if (count > left_.size() / least_item_size) nonsense("counts more than it holds");
    return static_cast<std::size_t>(count);
  }

  std::string_view text() { return text(count(1)); }

  std::string_view text(std::size_t size) {
    const std::span<const std::byte> bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string_view rest() { return text(left_.size()); }
  std::span<const std::byte> rest_of_bytes() { return take(left_.size()); }

  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> into(count(1));
    for (std::int64_t& size : into) size = signed_varint();
    return into;
  }

  template <typename Enum>
  Enum enumerated(Enum last) {
    const auto value = get<std::underlying_type_t<Enum>>();
    if (value > static_cast<std::underlying_type_t<Enum>>(last)) nonsense("names no known kind");
    return static_cast<Enum>(value);
  }

  void expect_end() const {
    if (!left_.empty()) nonsense("is longer than its content");
  }

  [[noreturn]] static void nonsense(const std::string& what) {
    throw core::Error(core::ErrorKind::kDumpDamaged, what);
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > left_.size()) nonsense("is shorter than its content");
    const std::span<const std::byte> taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  std::span<const std::byte> left_;
};

}  // namespace repro_check::journal
