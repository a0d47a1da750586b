// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comparators/align/align.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// Numbers the keys of one stream after the other from 0: what an alignment keeps for each key is
/// then no longer than the stream, and a million short streams cost no more than a long one.
class StreamNumbers {
 public:
  /// @param key_count  every key is below it
  explicit StreamNumbers(std::size_t key_count) : number_of_(key_count, kUnmatched) {}

  void begin_stream() {
    for (const std::uint32_t key : numbered_) number_of_[key] = kUnmatched;
    numbered_.clear();
  }

  /// @param places  of the stream's records in `keys`
  core::LargeVector<std::uint32_t> number(const core::LargeVector<std::uint32_t>& keys,
                                          std::span<const std::uint32_t> places) {
    core::LargeVector<std::uint32_t> numbers;
    numbers.reserve(places.size());
    for (const std::uint32_t place : places) {
      std::uint32_t& number = number_of_[keys[place]];
      if (number == kUnmatched) {
        number = static_cast<std::uint32_t>(numbered_.size());
        numbered_.push_back(keys[place]);
      }
      numbers.push_back(number);
    }
    return numbers;
  }

 private:
  core::LargeVector<std::uint32_t> number_of_;  ///< by key
  core::LargeVector<std::uint32_t> numbered_;   ///< keys of the stream at hand
};

}  // namespace repro_check::comparators::detail
