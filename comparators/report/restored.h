// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/finding.h"

namespace repro_check::comparators {

/// What a training program goes on from.
enum class StateKind : std::uint8_t {
  kBatch,  ///< the position in the data, and their order
  kParameters,
  kBuffers,
  kOtherModule,  ///< parameters and buffers of a module beside the one that is trained
  kTorchGenerator,
  kDeviceGenerator,
  kNumpyGenerator,
  kPythonGenerator,  ///< of the module `random`
  kLoaderGenerator,  ///< an own one of a DataLoader or its sampler
  kDatasetGenerator,
  kGradients,  ///< that more are going to be added to before the next step
  kLossScale,
  kOptimizer,
  kStepCount,  ///< of an optimizer
  kSchedule,   ///< learning rates, and what their schedulers keep
};
inline constexpr StateKind kLastState = StateKind::kSchedule;

/// `parameters`, `step count of the optimizer`, `generator of NumPy`: as reports call it.
std::string_view state_name(StateKind kind) noexcept;

/// How a kind of state came from one run into the other.
enum class Restored : std::uint8_t {
  kRight,      ///< bit-equal at its first use
  kNotSaved,   ///< it differs there, and no file held it
  kNotLoaded,  ///< a file held it, and nothing took it from there
  kUsedUp,     ///< it was restored, and changed again before its first use
  kMisplaced,  ///< it was restored, and stands for another parameter
  kNotProven,  ///< it differs, and nothing used it afterwards
};
inline constexpr Restored kLastRestored = Restored::kNotProven;

/// `right`, `not saved`, `used up between`.
std::string_view restored_name(Restored outcome) noexcept;

/// One kind of state at its first use after a resume.
struct RestoredState {
  StateKind kind = StateKind::kParameters;
  Restored outcome = Restored::kRight;
  std::uint64_t items = 0;      ///< compared: tensors and numbers
  std::uint64_t differing = 0;  ///< of those
  std::string name;             ///< the first that differs: `count.fc.weight.step`
  Phrases detail;               ///< `3 against 0`, `other bits`: the baseline's first
  std::string place;            ///< kUsedUp: `train.py:31`, where it changed after it was restored
  std::optional<std::uint64_t> moved;  ///< kUsedUp, of a generator: numbers of 32 bits drawn there

  [[nodiscard]] bool parts() const noexcept {
    return outcome != Restored::kRight && outcome != Restored::kNotProven;
  }
};

/// What is wrong with it; null where nothing is to be done.
std::optional<Finding> finding_of(const RestoredState& state);

/// Of a run that resumed from a checkpoint of the run that it is held against.
struct ResumeSummary {
  std::uint32_t step = 0;  ///< that the baseline had made when it saved; the first compared
  std::string saved;       ///< `train.py:31`, where the baseline saved; empty if unknown
  std::optional<std::uint32_t> before_update;  ///< of that step, which the checkpoint lacks
  std::string loaded;                          ///< where the resumed run loaded
  std::uint64_t files = 0;                     ///< loaded that the baseline had saved
  std::uint64_t baseline_op = 0;  ///< op index of the first use, from which on records are compared
  std::uint64_t candidate_op = 0;
  /// Of the resumed run's first step, that have no counterpart and are set aside.
  std::uint64_t first_calls = 0;
  std::vector<RestoredState> states;  ///< in the order of their first use

  /// The first that parts; null where none does.
  [[nodiscard]] const RestoredState* leading() const noexcept {
    const auto found = std::ranges::find_if(states, &RestoredState::parts);
    return found == states.end() ? nullptr : &*found;
  }
};

}  // namespace repro_check::comparators
