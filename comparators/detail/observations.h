// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparators/detail/op_judge.h"
#include "core/op_record.h"
#include "core/run_manifest.h"

namespace repro_check::comparators::detail {

/// What a person should know even when the verdict is a pass.
class Observations {
 public:
  /// To be told every matched pair, in trace order.
  void see(const core::OpRecord& baseline,
           const core::OpRecord& candidate,
           const OpFindings& findings);

  /// One sentence a warning; those of the two runs themselves come last.
  [[nodiscard]] std::vector<std::string> warnings(const core::RunManifest& baseline,
                                                  const core::RunManifest& candidate) const;

 private:
  /// Operators counted, and the first of them.
  struct Tally {
    std::uint64_t count = 0;
    std::string first;

    void add(const core::OpRecord& record);
  };

  std::uint64_t nan_pairs_ = 0;
  std::uint64_t zeros_ = 0;
  std::uint64_t counted_ = 0;
  Tally nan_;
  Tally absorbed_;
  Tally strides_;
  Tally alias_;
  std::string first_alias_;
  std::string baseline_special_;  ///< the first operator that made NaN or Inf from finite inputs
  std::string candidate_special_;
  std::uint64_t baseline_unstored_ = 0;  ///< tensors with a digest alone
  std::uint64_t candidate_unstored_ = 0;
};

}  // namespace repro_check::comparators::detail
