// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/changes.h"
#include "comparators/judge/expectations.h"

namespace repro_check::cmd {

/// How runs that agree with each other stand to what was accepted.
enum class BaselineState {
  kNotAsked,  ///< the runs disagree, or there is nothing whole to ask about
  kSame,
  kRefresh,  ///< something else changed, and the results did not
  kStale,
  kMissing,
  kDiffers,
  kDamaged,
  kNoKey,  ///< the recordings hold no numeric probe
};

/// What a gate found beside its report: everything a renderer needs.
struct GateOutcome {
  std::string gate;
  std::string config;  ///< as the user typed it; may be empty
  std::uint64_t runs = 0;
  bool runs_agree = false;
  BaselineState baseline = BaselineState::kNotAsked;
  std::string key;   ///< of the platform, in hexadecimal; empty where there is none
  std::string file;  ///< the baseline that was asked, or that is missing
  std::vector<baselines::Change> changes;  ///< what makes it stale
  std::string summary;                     ///< `3 of 491 operators change, first ...`
  std::string nearest;                     ///< the baseline of another platform that is most alike
  std::vector<baselines::Change> nearest_changes;
  std::string pending;               ///< the file that `accept` takes; empty = none was written
  std::string refusal;               ///< why `accept` will not take it; empty = it will
  std::vector<std::string> orphans;  ///< baselines that belong to no configuration
  std::vector<comparators::ExpectedOutcome> expected;
  std::vector<std::string> notes;
  std::string attempt;  ///< of the CI's job, where it says so
};

/// `same`, `stale`: as the JSON report has it.
std::string_view state_name(BaselineState state) noexcept;
/// `excused`, `unexpected_pass`
std::string_view expected_name(comparators::ExpectedOutcome::What what) noexcept;

}  // namespace repro_check::cmd
