// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// A value that a parameter or buffer had.
struct WeightVersion {
  std::uint32_t steps = 0;  ///< steps of the optimizer that had been done when it was seen first
  std::uint32_t until = 0;  ///< the last number of steps after which it was seen
  core::ContentKey content;
  bool stored = false;  ///< the dump has all its bytes
};

/// A parameter or buffer of one dump.
struct Weight {
  std::string name;                     ///< `rank 1: fc.weight` where a side has several ranks
  std::size_t dump = 0;                 ///< index into WeightSide::dumps
  std::vector<WeightVersion> versions;  ///< by the time they were seen, each other than the last

  [[nodiscard]] const WeightVersion& last() const { return versions.back(); }
};

/// The weights of one side: of one process, or of the ranks of a run.
struct WeightSide {
  std::vector<std::unique_ptr<core::DumpSource>> dumps;
  std::vector<Weight> weights;  ///< by dump and first use; none without a version
  std::uint32_t steps = 0;      ///< the most steps of an optimizer that were seen
  std::uint64_t unread = 0;     ///< names of which no value was read: opaque, excluded

  [[nodiscard]] const core::DumpSource& dump_of(const Weight& weight) const {
    return *dumps[weight.dump];
  }
};

/// Reads which values the weights had: where an operator read them by name, and behind each step of
/// an optimizer. Of an import every tensor is one.
/// @param dumps   one, or one per rank
/// @param prefix  of the names from each, as many as dumps; `rank 1: `
/// @param end     operators from this op index on are not looked at
/// @throws core::Error{kDumpDamaged}; {kNotComparable} for a recording of blocks, whose digests are
///         those of borders
WeightSide read_weights(std::vector<std::unique_ptr<core::DumpSource>> dumps,
                        const std::vector<std::string>& prefix,
                        std::uint64_t end = std::numeric_limits<std::uint64_t>::max());

}  // namespace repro_check::comparators
