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

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::uint32_t count(std::size_t least_item_size) {
    const auto count = get<std::uint32_t>();
    if (count > left_.size() / least_item_size) nonsense("counts more than it holds");
    return count;
  }

  std::string_view text(std::size_t size) {
    const std::span<const std::byte> bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string_view rest() { return text(left_.size()); }
  std::span<const std::byte> rest_of_bytes() { return take(left_.size()); }

  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> into(count(sizeof(std::int64_t)));
    const std::size_t length = into.size() * sizeof(std::int64_t);
    if (length != 0) std::memcpy(into.data(), take(length).data(), length);
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
