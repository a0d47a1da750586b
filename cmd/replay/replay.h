// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/replay/replay.h"

namespace repro_check::cmd {

/// One operator of one dump.
struct ReplaySide {
  std::filesystem::path dump;
  std::vector<std::filesystem::path> references;
  std::uint64_t op = 0;
};

struct ReplayPlan {
  ReplaySide recorded;
  std::optional<std::filesystem::path> against;  ///< the other side
  std::optional<std::uint64_t> against_op;       ///< empty = what alignment finds
  unsigned calls = 20;
  std::vector<int> threads;       ///< empty = as recorded
  std::vector<std::string> isas;  ///< ATEN_CPU_CAPABILITY; `default` = unset. Empty = as recorded
  std::string device;             ///< empty = as recorded
  bool float64 = true;
  std::optional<std::filesystem::path> recorder;
  std::optional<std::chrono::seconds> timeout;  ///< of all calls under one instruction set
};

/// The calls made under one instruction set and one thread count.
struct ReplaySetting {
  std::string isa;             ///< as asked; empty = as recorded
  std::string cpu_capability;  ///< as LibTorch reports it
  capture::ReplayRound round;
};

enum class ReplayVerdict {
  kRepeats,            ///< one result in all calls, the recorded one
  kRepeatsUnrecorded,  ///< one result in all calls, and the record does not say what came out
  kNotReproduced,      ///< one result in all calls, and not the recorded one
  kDependsOnSettings,  ///< one result at every setting, but not the same
  kVaries,             ///< more than one result at some setting
};

/// `repeats`, `repeats_unrecorded`, `not_reproduced`, `depends_on_settings`, `varies`.
std::string verdict_name(ReplayVerdict verdict);

struct ReplayFindings {
  core::OpRecord op;
  std::string dump;
  std::string against;  ///< empty = nothing was
  std::uint64_t against_op = 0;
  bool same_inputs = true;  ///< of the two recorded calls
  std::string libtorch;
  std::string device;  ///< as asked; empty = as recorded
  std::vector<ReplaySetting> settings;
  std::optional<capture::ReferenceDistance> baseline;   ///< of `dump` from float64
  std::optional<capture::ReferenceDistance> candidate;  ///< of `against`
  std::vector<std::string> notes;

  [[nodiscard]] ReplayVerdict verdict() const;
  [[nodiscard]] std::uint64_t calls() const;     ///< in all
  [[nodiscard]] std::uint64_t distinct() const;  ///< results in all calls
  /// Root mean square distance from float64 of `dump` over that of `against`, all measured outputs
  /// of a side together: above 1, `against` is nearer. 1 where both are 0, inf where only
  /// `against` is, or where only `dump` has NaN or infinity against a number; empty where a side
  /// was not measured, or both have such.
  [[nodiscard]] std::optional<double> reference_ratio() const;
};

/// Root mean square distance over all outputs; inf where NaN or infinity stands against a number,
/// empty where nothing was measured.
std::optional<double> rms_distance(const std::optional<capture::ReferenceDistance>& distance);

core::ExitCode exit_code_of(const ReplayFindings& findings);

/// Starts a recorder for each instruction set.
/// @throws core::Error{kNotComparable} for an operator that cannot be executed again, saying what
///         to record; as ask_recorder() for what the recorder says
ReplayFindings replay(const ReplayPlan& plan);

/// `REPEATS at every setting: op 41 aten::addmm (...)...`, and what stands below it.
std::string replay_text(const ReplayFindings& findings);
/// The verdict line alone, without a newline.
std::string replay_headline(const ReplayFindings& findings);
/// docs/replay.schema.json
std::string replay_json(const ReplayFindings& findings, bool pretty);

}  // namespace repro_check::cmd
