// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/engine/capture_options.h"

namespace repro_check::probe {

/// Which operators of a program are recorded.
struct RecordedPart {
  core::OpRanges steps;             ///< empty = of all
  std::vector<core::Phase> phases;  ///< empty = of all
  std::uint64_t most = 0;           ///< so many; 0 = all
  bool optimizer_state = false;     ///< of an optimizer's steps what they leave
  core::OpRanges open_steps;        ///< all the same with their operators: by the op index of the
                                    ///< first
};

/// What a process is told that records itself. Knows no LibTorch: this is built once, and not again
/// for each PyTorch.
struct Plan {
  capture::CaptureOptions options;
  RecordedPart part;
  core::DeterminismMode determinism = core::DeterminismMode::kOff;
  bool workers = false;  ///< of data loaders are recorded as well
  bool bare = false;     ///< nothing but what Python says is recorded
  std::optional<std::uint64_t> seed;
  /// Variables as they were before they were pinned; empty = not set.
  std::map<std::string, std::optional<std::string>> found;
  core::RunManifest manifest;  ///< as far as the plan tells it
};

/// @param text  JSON, as `exec` writes it
/// @throws core::Error{kUsage} on a word that nothing is called; what the JSON library throws
Plan plan_from_json_text(const std::string& text);

/// What `exec` reads of a process.
struct ProcessState {
  int process = 0;
  int parent = 0;
  std::string failure;  ///< why nothing was recorded, or no more; empty = nothing failed
  bool ended = false;
  std::vector<std::string> notes;  ///< what was not seen
  std::uint64_t operators = 0;
};

/// As the Python side writes it.
std::string to_json_text(const ProcessState& state);

}  // namespace repro_check::probe
