// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "comparators/report/compare_options.h"

namespace repro_check::comparators::detail {

/// Tells CompareOptions::progress how far one phase is: at its begin, at its end, and at most so
/// often between that it costs nothing where steps are many.
class Pace {
 public:
  /// @param options  borrowed
  Pace(const CompareOptions& options, ComparePhase phase, std::uint64_t total)
      : options_(options), phase_(phase), total_(total) {
    tell();
  }

  void add(std::uint64_t steps) {
    done_ += std::min(steps, total_ - done_);
    if (done_ >= next_) tell();
  }

  /// All is done, whatever was added.
  void finish() {
    done_ = total_;
    tell();
  }

 private:
  static constexpr std::uint64_t kTold = 1000;

  void tell() {
    next_ = done_ + total_ / kTold + 1;
    if (options_.progress) options_.progress({phase_, done_, total_});
  }

  const CompareOptions& options_;
  ComparePhase phase_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace repro_check::comparators::detail
