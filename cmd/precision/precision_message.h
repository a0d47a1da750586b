// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cmd/replay/replay_message.h"
#include "dumpers/replay/precision.h"

namespace repro_check::cmd {

DESCRIBE(replay::RecordedTensor, MEMBER(op) MEMBER(tensor) MEMBER(values))
DESCRIBE(replay::ShadowCut, MEMBER(op) MEMBER(why))
DESCRIBE(replay::ShadowCounts,
         MEMBER(executed) MEMBER(draws) MEMBER(outside) MEMBER(decisions) MEMBER(numbers_read))

/// Of which tensor of a dump a recorder is to say where its digits were lost.
struct PrecisionQuestion {
  ReplaySide recorded;
  replay::RecordedTensor result;  ///< its op is that of `recorded`
};

struct PrecisionAnswer {
  std::string libtorch;
  replay::PrecisionOutcome outcome;
};

/// As questions and answers about a repeated call: a file, and one line on stdout.
std::string to_text(const PrecisionQuestion& question);
std::string to_text(const PrecisionAnswer& answer);

/// @throws core::Error{kUsage} when `text` is none
PrecisionQuestion parse_precision_question(std::string_view text);
/// @throws core::Error{kRunFailed} when `line` is none
PrecisionAnswer parse_precision_answer(std::string_view line);

}  // namespace repro_check::cmd
