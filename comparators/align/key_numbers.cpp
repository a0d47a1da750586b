// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/key_numbers.h"

#include <array>
#include <span>

#include "core/error.h"
#include "core/system/id_slots.h"

namespace repro_check::comparators::detail {
namespace {

constexpr unsigned kBits = 64;

/// Keys whose digests begin alike.
class Part {
 public:
  /// @param bits  how many of the first ones are looked at, below 64
  /// @param part  what they are
  /// @param next  number of the first key
  Part(unsigned bits, std::uint64_t part, std::uint32_t next)
      : bits_(bits), part_(part), first_(next) {}

  /// Numbers those of the keys that are of this part.
  void number(const Keys& keys, core::LargeVector<std::uint32_t>& numbers) {
    std::size_t record = 0;
    keys.for_each([&](const core::Digest& key) {
      if (has(key)) numbers[record] = number_of(key);
      ++record;
    });
  }

  /// Number of the next part's first key.
  [[nodiscard]] std::uint32_t next() const {
    return first_ + static_cast<std::uint32_t>(known_.size());
  }

 private:
  [[nodiscard]] bool has(const core::Digest& key) const noexcept {
    return bits_ == 0 || key.high >> (kBits - bits_) == part_;
  }

  std::uint32_t number_of(const core::Digest& key) {
    const auto known = static_cast<std::uint32_t>(known_.size());
    const std::uint32_t id = slots_.find_or_add(
        key.low,
        known,
        [&](std::uint32_t other) { return known_[other] == key; },
        [&](std::uint32_t other) { return known_[other].low; });
    if (id == known) {
      if (next() == UINT32_MAX) {
        throw core::Error(core::ErrorKind::kNotComparable,
                          "the dumps hold more kinds of operators than can be aligned");
      }
      known_.push_back(key);
    }
    return first_ + id;
  }

  unsigned bits_;
  std::uint64_t part_;
  std::uint32_t first_;
  Keys known_;
  core::IdSlots slots_;
};

}  // namespace

core::Digest digest_of_name(std::string_view name) noexcept {
  return core::digest_leaf(std::as_bytes(std::span(name)));
}

core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept {
  const std::array<std::uint64_t, 9> parts{head.rank,
                                           head.lane,
                                           head.step,
                                           static_cast<std::uint64_t>(head.phase),
                                           head.depth,
                                           module.high,
                                           module.low,
                                           op.high,
                                           op.low};
  return core::digest_leaf(std::as_bytes(std::span(parts)));
}

KeyNumbers number_keys(const Keys& baseline, const Keys& candidate, std::size_t at_once) {
  const std::size_t records = baseline.size() + candidate.size();
  unsigned bits = 0;
  while (bits < kBits - 1 && records >> bits > at_once) ++bits;
  KeyNumbers numbers;
  numbers.baseline.resize(baseline.size());
  numbers.candidate.resize(candidate.size());
  for (std::uint64_t i = 0; i < std::uint64_t{1} << bits; ++i) {
    Part part(bits, i, numbers.distinct);
    part.number(baseline, numbers.baseline);
    part.number(candidate, numbers.candidate);
    numbers.distinct = part.next();
  }
  return numbers;
}

}  // namespace repro_check::comparators::detail
