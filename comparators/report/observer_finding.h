// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace repro_check::comparators {

/// What `--check-observer` found of one run.
struct ObserverFinding {
  enum class Outcome {
    kUnchanged,
    kChanged,
    kNotJudged,  ///< the run without recording does not return the same twice
  };
  std::string run;
  Outcome outcome = Outcome::kUnchanged;
  std::uint64_t outputs = 0;  ///< tensors and other values the run returns
  std::string level;          ///< of the recording that changed one
  std::string output;         ///< the first that differs: `0.logits`
  std::string detail;         ///< `float32 [8, 10]: other bits`
};

}  // namespace repro_check::comparators
