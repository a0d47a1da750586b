// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/replay/replay_message.h"
#include "core/error.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

struct ReplayPlan {
  ReplayQuestion question;                  ///< but for the op of its other side
  std::optional<std::uint64_t> against_op;  ///< empty = what alignment finds
  std::vector<std::string> isas;  ///< ATEN_CPU_CAPABILITY; `default` = unset. Empty = as recorded
  std::optional<std::filesystem::path> recorder;
  std::optional<std::chrono::seconds> timeout;  ///< of all calls under one instruction set
};

/// The calls made under one instruction set and one thread count.
struct ReplaySetting {
  std::string isa;             ///< as asked; empty = as recorded
  std::string cpu_capability;  ///< as LibTorch reports it
  replay::Round round;
};

/// What all calls together say.
struct ReplayVerdict {
  const char* name;   ///< in documents
  const char* words;  ///< at the start of a headline
  /// And what follows the operator there. Of {0} calls at settings, {1} distinct results; of the
  /// setting that varied most {2} results, {3} calls and {4} its name.
  const char* sentence;
  core::ExitCode exit;
};

struct ReplayFindings {
  core::OpRecord op;
  std::string dump;
  std::string against;  ///< empty = nothing was
  std::uint64_t against_op = 0;
  bool same_inputs = true;      ///< of the two recorded calls
  std::string other_arguments;  ///< `eps`, where tensors are the same and these are not
  std::string libtorch;
  std::string device;  ///< as asked; empty = as recorded
  std::vector<ReplaySetting> settings;
  std::optional<replay::ReferenceDistance> baseline;   ///< of `dump` from float64
  std::optional<replay::ReferenceDistance> candidate;  ///< of `against`
  std::vector<std::string> notes;

  [[nodiscard]] const ReplayVerdict& verdict() const;
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
std::optional<double> rms_distance(const std::optional<replay::ReferenceDistance>& distance);

inline constexpr std::uint64_t kLongestTimeout = 31'536'000;  // seconds of a year

/// What a recorder is to be asked about a dump.
struct DumpQuestion {
  std::string verb;  ///< of the recorder; it takes a file
  std::string text;  ///< what the file says
  std::optional<std::filesystem::path> recorder = {};
  std::optional<std::chrono::seconds> timeout = {};
  /// Variables that are not as recorded.
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::string about = {};  ///< what is said to have been killed; empty = the recorder
};

/// Starts a recorder with the variables of the recorded run, as far as they are known to change
/// numbers.
/// @return the last line of what it says
/// @throws as ask_recorder()
std::string ask_about_dump(const DumpQuestion& asked, const core::RunManifest& manifest);

/// Starts a recorder for each instruction set.
/// @throws core::Error{kNotComparable} for an operator that cannot be executed again, saying what
///         to record; as ask_recorder() for what the recorder says
ReplayFindings replay(const ReplayPlan& plan);

}  // namespace repro_check::cmd
