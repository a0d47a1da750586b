// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dumpers/replay/replay.h"

namespace repro_check::cmd {

/// One operator of one dump.
struct ReplaySide {
  std::filesystem::path dump;
  std::vector<std::filesystem::path> references;
  std::uint64_t op = 0;
};

/// What a recorder is to execute, under the settings of the dump's manifest.
struct ReplayQuestion {
  ReplaySide recorded;
  replay::Request how;
  bool float64 = false;               ///< measure the recorded outputs from the float64 result
  std::optional<ReplaySide> against;  ///< and those of this side
};

/// What it found.
struct ReplayAnswer {
  std::string libtorch;
  std::string cpu_capability;
  std::vector<replay::Round> rounds;
  std::optional<replay::ReferenceDistance> baseline;   ///< of the dump
  std::optional<replay::ReferenceDistance> candidate;  ///< of the other side
  std::vector<std::string> notes;
};

/// A question is a file, an answer one line on stdout:
///   {"dump": D, "references": [...], "op": I, "calls": N, "threads": [...], "device": "",
///    "float64": true, "against": {"dump": D, "references": [...], "op": I}}
///   {"libtorch", "cpu_capability", "rounds": [{"threads", "sequence", "results": [{"digest",
///    "calls", "first", "as_recorded", "to_recorded": [DISTANCE]}]}],
///    "float64": {"baseline": {"outputs": [DISTANCE], "problem"}, "candidate": ...}, "notes":
///    [...]}
/// with DISTANCE {"slot", "elements", "differing", "incomparable", "max_abs", "rmse"}; numbers that
/// are not finite are strings. `against` and `float64` may be missing from both. What is not UTF-8
/// in what they quote is replaced.
std::string to_text(const ReplayQuestion& question);
std::string to_text(const ReplayAnswer& answer);

/// @throws core::Error{kUsage} when `text` is none
ReplayQuestion parse_question(std::string_view text);
/// @throws core::Error{kRunFailed} when `line` is none
ReplayAnswer parse_answer(std::string_view line);

}  // namespace repro_check::cmd
