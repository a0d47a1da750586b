// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/replay/replay_message.h"
#include "dumpers/replay/batch.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::cmd {

/// Under which settings a recorder is to execute the calls of a dump again.
struct SweepQuestion {
  ReplaySide recorded;  ///< its op says nothing
  std::vector<replay::SweepSetting> settings;
};

/// Which calls of a batch a recorder is to execute again for single items.
struct BatchQuestion {
  ReplaySide batch;  ///< their ops say nothing
  ReplaySide alone;
  std::vector<replay::BatchCall> calls;
};

struct BatchAnswer {
  std::vector<std::string> notes;
  replay::BatchOutcome outcome;
};

struct SweepAnswer {
  std::string libtorch;
  std::string cpu_capability;
  std::vector<std::string> notes;
  replay::SweepOutcome outcome;
};

/// As on the command line.
constexpr std::string_view name_of(replay::SweepSetting::Kind kind) noexcept {
  constexpr std::array<std::string_view, 5> kNames{
      "threads", "alignment", "poison", "condition", "decisions"};
  return kNames.at(static_cast<std::size_t>(kind));
}

template <typename F>
void describe(F f, Of<F, replay::SweepSetting::Kind>& it) {
  f.word(it, replay::SweepSetting::Kind::kDecision, &name_of);
}

DESCRIBE(replay::SweepSetting, MEMBER(kind) MEMBER(value))
DESCRIBE(replay::SweptOutput,
         MEMBER(slot) MEMBER(elements) MEMBER(differing) MEMBER(max_abs) MEMBER(largest)
             MEMBER(condition) MEMBER(argument))
DESCRIBE(replay::SweptCall, MEMBER(op) MEMBER(setting) MEMBER(output))
DESCRIBE(replay::UnsweptCall, MEMBER(op) MEMBER(why))
DESCRIBE(replay::SweepOutcome, MEMBER(executed) MEMBER(differing) MEMBER(unswept) MEMBER(had))
DESCRIBE(SweepQuestion, MEMBER(recorded) MEMBER(settings))
DESCRIBE(replay::BatchCall, MEMBER(op) MEMBER(alone))
DESCRIBE(replay::BatchDifference, MEMBER(op) MEMBER(item) MEMBER(output))
DESCRIBE(replay::BatchOutcome,
         MEMBER(items) MEMBER(tried) MEMBER(judged) MEMBER(told_apart) MEMBER(without_items)
             MEMBER(differing) MEMBER(mixing) MEMBER(unrepeated) MEMBER(unswept))
DESCRIBE(BatchQuestion, MEMBER(batch) MEMBER(alone) MEMBER(calls))
DESCRIBE(BatchAnswer, MEMBER(notes) MEMBER(outcome))
DESCRIBE(SweepAnswer, MEMBER(libtorch) MEMBER(cpu_capability) MEMBER(notes) MEMBER(outcome))

}  // namespace repro_check::cmd
