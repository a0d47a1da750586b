// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "comparators/align/pairing.h"
#include "comparators/report/report.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {

/// How many earlier records of its side share the key of a record: what tells the calls of one
/// operator in one module apart. 4 bytes a record of a side, from the first one that is asked for.
class Occurrences {
 public:
  /// @param pairing  borrowed
  explicit Occurrences(const Pairing& pairing) : pairing_(pairing) {}

  /// Fills OpDivergence::occurrence: by the baseline's record, where there is one.
  void fill(OpDivergence& item);

 private:
  const Pairing& pairing_;
  // Operators are met in the order in which calls ended, which is not that of the records: counted
  // on the way, an outer one would count its side from the start.
  core::LargeVector<std::uint32_t> baseline_;
  core::LargeVector<std::uint32_t> candidate_;
};

}  // namespace repro_check::comparators::detail
