// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/replay/replay_message.h"
#include "dumpers/replay/shadow_values.h"

namespace repro_check::cmd {

/// Of which tensors of a dump a recorder is to write what float64 gives, and where.
struct ShadowQuestion {
  ReplaySide recorded;  ///< its op says nothing
  std::vector<replay::RecordedTensor> tensors;
  std::filesystem::path given;  ///< the dump of what stands in their place
  std::filesystem::path out;    ///< the dump to write
};

struct ShadowAnswer {
  std::string libtorch;
  replay::ShadowValuesOutcome outcome;
};

/// As questions and answers about a repeated call: a file, and one line on stdout.
std::string to_text(const ShadowQuestion& question);
std::string to_text(const ShadowAnswer& answer);

/// @throws core::Error{kUsage} when `text` is none
ShadowQuestion parse_shadow_question(std::string_view text);
/// @throws core::Error{kRunFailed} when `line` is none
ShadowAnswer parse_shadow_answer(std::string_view line);

}  // namespace repro_check::cmd
