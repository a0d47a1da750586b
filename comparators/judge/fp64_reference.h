// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/align/pairing.h"
#include "core/system/large_memory.h"
#include "core/trace/dump_source.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// The results of a run in float64, found by the operators of the baseline.
class Fp64Reference {
 public:
  /// Aligns the two runs. Memory: 4 bytes an operator of the baseline once it is done.
  /// @param baseline, float64  both borrowed for the life of the reference
  /// @throws core::Error{kDumpDamaged}
  Fp64Reference(const core::DumpSource& baseline,
                const core::DumpSource& float64,
                const PairingOptions& options);

  /// @return null where the run in float64 has no such output, or it cannot be read; else valid
  ///         until the next call
  [[nodiscard]] const core::TensorRecord* find(const core::OpRecord& baseline,
                                               std::string_view slot);

  [[nodiscard]] const core::DumpSource& source() const noexcept { return float64_; }
  /// Operators of the baseline that the other run has too.
  [[nodiscard]] std::uint64_t matched() const noexcept { return matched_; }
  /// What could not be read of it, in words; empty = all that was asked for.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }

 private:
  const core::DumpSource& float64_;
  core::LargeVector<std::uint32_t> counterpart_;  ///< per op index of the baseline, or kUnmatched
  std::uint64_t matched_ = 0;
  core::OpRecord last_;  ///< read last: the outputs of one operator are asked for in a row
  std::uint32_t last_index_;
  std::string damage_;
};

}  // namespace repro_check::comparators::detail
