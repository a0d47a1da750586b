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
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// The last enumerator of what a field may hold.
template <typename Enum>
inline constexpr Enum kLast = Enum{};
template <>
inline constexpr core::Phase kLast<core::Phase> = core::Phase::kOptimizer;
template <>
inline constexpr core::TensorRole kLast<core::TensorRole> = core::TensorRole::kOutput;
template <>
inline constexpr core::ContentState kLast<core::ContentState> = core::ContentState::kExcluded;
template <>
inline constexpr core::InputWatch kLast<core::InputWatch> = core::InputWatch::kMoved;
template <>
inline constexpr core::Dtype kLast<core::Dtype> = core::Dtype::kQInt32;
template <>
inline constexpr ContentPlace kLast<ContentPlace> = ContentPlace::kReference;

/// Takes a payload apart, field by field as EntryBuffer put it together. Every step is checked
/// against what is left, and a count against the bytes its items need at least, before memory is
/// asked for.
class ByteReader {
 public:
  static constexpr bool kReads = true;

  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}
  explicit ByteReader(std::string_view bytes) : left_(std::as_bytes(std::span(bytes))) {}

  [[nodiscard]] std::size_t size() const noexcept { return left_.size(); }

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (read(fields), ...);
  }

  std::uint64_t varint() {
    constexpr unsigned kBits = 64;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < kBits; shift += 7U) {
      const auto byte = static_cast<std::uint8_t>(take(1).front());
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80U) return value;
    }
    nonsense("holds a number without end");
  }

  std::size_t count(std::size_t least_item_size) {
    const std::uint64_t count = varint();
    if (count > left_.size() / least_item_size) nonsense("counts more than it holds");
    return static_cast<std::size_t>(count);
  }

  std::string_view text() { return text_of(take(count(1))); }
  std::string_view rest() { return text_of(rest_of_bytes()); }
  std::span<const std::byte> rest_of_bytes() { return take(left_.size()); }

  void expect_end() const {
    if (!left_.empty()) nonsense("is longer than its content");
  }

  [[noreturn]] static void nonsense(const std::string& what) {
    throw core::Error(core::ErrorKind::kDumpDamaged, what);
  }

 private:
  void read(std::string& into) { into = text(); }
  void read(std::vector<std::int64_t>& into) {
    into.resize(count(1));
    for (std::int64_t& size : into) read(size);
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void read(T& into) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      into = varint();
    } else if constexpr (std::is_same_v<T, std::uint32_t>) {
      const std::uint64_t value = varint();
      if (value > UINT32_MAX) nonsense("holds a number that is too large");
      into = static_cast<std::uint32_t>(value);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      const std::uint64_t bits = varint();
      into = static_cast<std::int64_t>((bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
    } else if constexpr (std::is_same_v<T, bool>) {
      into = take(1).front() != std::byte{0};
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1 && kLast<T> != T{});
      const auto value = static_cast<std::uint8_t>(take(1).front());
      if (value > static_cast<std::uint8_t>(kLast<T>)) nonsense("names no known kind");
      into = static_cast<T>(value);
    } else {
      std::memcpy(&into, take(sizeof(T)).data(), sizeof(T));
    }
  }

  static std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> take(std::size_t size) {
    if (size > left_.size()) nonsense("is shorter than its content");
    const std::span<const std::byte> taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  std::span<const std::byte> left_;
};

}  // namespace repro_check::journal
