// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump.h"

namespace repro_check::replay {

/// What is changed under a recorded call that must not change its result.
struct SweepSetting {
  enum class Kind : std::uint8_t {
    kThreads,    ///< `value` threads
    kAlignment,  ///< the memory of arguments begins `value` bytes later
    kFill,       ///< bytes of memory that nobody has written yet are `value`
    kCondition,  ///< the numbers of one argument have another last bit: how far the result moves
    kDecision,   ///< the same: which integers and truth values of the result are others
  };
  Kind kind{};
  std::int64_t value = 0;
};

/// An output that came out otherwise.
struct SweptOutput {
  std::string slot;
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;    ///< by value, see OutputDistance
  std::optional<double> max_abs;  ///< over pairs of finite numbers
  double largest = 0;             ///< magnitude among the recorded finite numbers
  /// Of a nudged argument: how many times as much the output moved, relative to what is there.
  std::optional<double> condition = {};
  std::string argument = {};  ///< that was nudged
};

/// A call that gave something else than it was recorded with.
struct SweptCall {
  std::uint64_t op = 0;
  std::optional<std::uint64_t> setting;  ///< which; empty = under those of the recording
  std::optional<SweptOutput> output;     ///< the one that differs most; empty = none is measured
};

/// A call that could not be made.
struct UnsweptCall {
  std::uint64_t op = 0;
  std::string why;
};

struct SweepOutcome {
  std::uint64_t executed = 0;  ///< calls, each under every setting
  /// By op. One that differs under the settings of the recording was tried with fills alone.
  std::vector<SweptCall> differing;
  std::vector<UnsweptCall> unswept;  ///< by op
  /// Settings that this process can have and does not have anyway, by their place.
  std::vector<std::uint64_t> had;
};

/// Executes the recorded calls of a dump again, each by itself and with the inputs of its record,
/// so that what differs begins there: once as recorded, then under each setting. Of a call with
/// others inside it is executed itself where it can be, else those. What gives no results, or
/// memory that was never written, is left out.
/// Results are compared with the recorded ones, those of fills with each other. A result whose
/// condition is at most 1000 is none of kCondition.
/// @throws core::Error{kDumpDamaged}
SweepOutcome sweep(const core::DumpSource& dump, const std::vector<SweepSetting>& settings);

}  // namespace repro_check::replay
