// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/recorded_part.h"
#include "core/trace/run_manifest.h"

namespace repro_check::core {

/// What `exec` tells the processes of a program, which record themselves: the probe reads all of
/// it, Python what it needs, by the names of the members.
struct ProgramPlan : RecordedPart {
  DeterminismMode determinism = DeterminismMode::kOff;
  bool disable_dropout = false;
  RngMode rng = RngMode::kDevice;
  CompileRung compile = CompileRung::kUntouched;
  std::string compile_fallback;
  std::optional<std::uint64_t> seed;
  bool bare = false;  ///< nothing but what Python says is recorded
  /// Variables as they were before they were pinned; empty = not set.
  std::map<std::string, std::optional<std::string>> found;
  std::string run;            ///< its name
  std::string run_id;         ///< as in the manifest
  std::string configuration;  ///< the resolved run, as JSON text
  // For Python alone, folders: of all processes, of the probes, and of what only this run may use.
  std::string directory;
  std::string probes;
  std::string build_folder;
};

/// @throws Error{kUsage} on what is not UTF-8
std::string to_json_text(const ProgramPlan& plan);

/// What is not there is as it is by default.
/// @throws Error{kUsage} on a key or a word that nothing is called, or a value of another type
ProgramPlan program_plan_from_json_text(const std::string& text);

/// As far as the plan tells it.
RunManifest manifest_of(const ProgramPlan& plan);

/// What `exec` reads of a process, which Python writes, or the probe where there is none.
struct ProcessState {
  int process = 0;
  int parent = 0;
  std::string failure;             ///< why nothing was recorded, or no more; empty = nothing failed
  std::vector<std::string> notes;  ///< what was not seen
  bool ended = false;              ///< it came to its end, and its journal is whole
  std::uint64_t operators = 0;     ///< where it has ended
  bool unread = false;             ///< at depth blocks: it ran operators, and called no block
  bool worker = false;             ///< of a data loader
  std::optional<std::uint32_t> rank;  ///< where it is one of several
  std::uint32_t ranks = 0;            ///< how many these are
  bool joins = false;                 ///< a process group: not just launched as one of them
  std::uint64_t attempt = 0;          ///< how often its launcher had started the ranks again
  double began = 0;                   ///< seconds since 1970
  std::uint64_t started = 0;          ///< in ticks of the kernel
  std::string how;                    ///< it was made, alike in two runs: `fork at train.py:12`
  bool pool = false;                  ///< it takes whatever task of a pool comes next
  std::vector<std::string> command;   ///< words, secrets among them
};

std::string to_json_text(const ProcessState& state);

/// @throws Error{kUsage}
ProcessState process_state_from_json_text(const std::string& text);

}  // namespace repro_check::core
