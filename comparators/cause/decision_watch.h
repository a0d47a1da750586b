// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"

namespace repro_check::comparators::detail {

/// Remembers what operators answered to the program, for when the streams part.
class DecisionWatch {
 public:
  /// To be called for every matched pair, in order.
  void see(const core::OpRecord& baseline,
           const core::OpRecord& candidate,
           const OpFindings& findings);

  /// The last answer that was not the same on both sides; else the last of an operator that turns a
  /// tensor into a number or truth, by which a branch can have been taken.
  [[nodiscard]] std::optional<Decision> last() const;

 private:
  std::optional<Decision> differing_;
  std::optional<Decision> asked_;
};

}  // namespace repro_check::comparators::detail
