// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/replay/replay_message.h"
#include "dumpers/replay/precision.h"

namespace repro_check::cmd {

/// Of which tensor of a dump a recorder is to say where its digits were lost.
struct PrecisionQuestion {
  ReplaySide recorded;
  replay::RecordedTensor result;
};

struct PrecisionAnswer {
  std::string libtorch;
  replay::PrecisionOutcome outcome;
};

DESCRIBE(replay::RecordedTensor, MEMBER(op) MEMBER(tensor) MEMBER(values))
DESCRIBE(replay::FarthestElement, MEMBER(element) MEMBER(recorded) MEMBER(float64) MEMBER(row))
DESCRIBE(replay::CallPrecision,
         MEMBER(op) MEMBER(digits_in) MEMBER(digits_out) MEMBER(own_digits) MEMBER(moved)
             MEMBER(passes) MEMBER(terms) MEMBER(farthest))
DESCRIBE(replay::ModuleOutput, MEMBER(op) MEMBER(digits) MEMBER(rows) MEMBER(row_digits))
DESCRIBE(replay::ShadowCut, MEMBER(op) MEMBER(why))
DESCRIBE(replay::ShadowCounts,
         MEMBER(executed) MEMBER(draws) MEMBER(outside) MEMBER(decisions) MEMBER(numbers_read))
DESCRIBE(replay::PrecisionOutcome,
         MEMBER(digits) MEMBER(relative_error) MEMBER(farthest) MEMBER(calls) MEMBER(modules)
             MEMBER(overflow) MEMBER(explained) MEMBER(underived) MEMBER(values) MEMBER(counts)
                 MEMBER(cuts))
DESCRIBE(PrecisionQuestion, MEMBER(recorded) MEMBER(result))
DESCRIBE(PrecisionAnswer, MEMBER(libtorch) MEMBER(outcome))

}  // namespace repro_check::cmd
