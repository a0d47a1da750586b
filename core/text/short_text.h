// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace repro_check::core {

/// For the texts and sizes of a record, which are a few bytes long: a call of the C library costs
/// more than what it does with them. Here both ends are compared as words, which may overlap.
inline constexpr std::size_t kShortBytes = 16;

template <typename Word>
Word word_at(const void* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

inline bool same_text(std::string_view left, std::string_view right) noexcept {
  const std::size_t size = left.size();
  if (size != right.size()) return false;
  const char* a = left.data();
  const char* b = right.data();
  const auto both_ends = [&]<typename Word>(Word /*unit*/) {
    const std::size_t last = size - sizeof(Word);
    return word_at<Word>(a) == word_at<Word>(b) &&
           word_at<Word>(a + last) == word_at<Word>(b + last);
  };
  if (size > kShortBytes) return std::memcmp(a, b, size) == 0;
  if (size >= sizeof(std::uint64_t)) return both_ends(std::uint64_t{});
  if (size >= sizeof(std::uint32_t)) return both_ends(std::uint32_t{});
  if (size >= sizeof(std::uint16_t)) return both_ends(std::uint16_t{});
  return size == 0 || *a == *b;
}

/// A loop of its own: of so few numbers, the C library's comparison costs more to call.
inline bool same_sizes(std::span<const std::int64_t> left,
                       std::span<const std::int64_t> right) noexcept {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i]) return false;
  }
  return true;
}

/// Assigns where there is something to assign: what stands in a record is mostly what comes again.
inline void set_text(std::string& into, std::string_view text) {
  if (!same_text(into, text)) into.assign(text);
}

}  // namespace repro_check::core
