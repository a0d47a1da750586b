// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/obstacles.h"

#include <optional>
#include <utility>

#include "core/text/text.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {
namespace {

using core::ProgramEnd;

bool is_known(const ProgramEnd& end) { return end.exit_code || !end.signal.empty(); }

/// Whether nothing says that the program did not come to its end.
bool is_clean(const ProgramEnd& end) {
  return !end.exception && end.signal.empty() && end.exit_code.value_or(0) == 0;
}

/// Whether the program was cut short, by whatever code it then ended.
bool was_ended(const ProgramEnd& end) { return end.exception || !end.signal.empty(); }

/// `exit code 1, by ValueError at train.py:12`.
Phrase end_phrase(const ProgramEnd& end) {
  Phrase phrase("program-end");
  if (end.exit_code) {
    phrase.with("exit_code", *end.exit_code);
  } else {
    phrase.with("signal", end.signal);
  }
  if (!end.exception) return phrase.with("is_unknown", !is_known(end));
  const core::RaisedException& raised = *end.exception;
  phrase.with("is_known", is_known(end)).with("exception", core::printable(raised.type));
  if (!raised.file.empty()) {
    phrase.with("line", core::line_text(core::printable(raised.file), raised.line));
  }
  return phrase.with("thread", core::printable(raised.thread));
}

void judge_ends(const ProgramEnd& baseline, const ProgramEnd& candidate, Obstacles& found) {
  const bool both_known = is_known(baseline) && is_known(candidate);
  const bool other = both_known ? baseline != candidate : is_clean(baseline) != is_clean(candidate);
  if (!other && !was_ended(baseline)) return;
  found.reasons.push_back(Phrase(other ? "ended-otherwise" : "both-cut-short",
                                 {{"baseline", Phrases{end_phrase(baseline)}},
                                  {"candidate", Phrases{end_phrase(candidate)}},
                                  {"was_ended", was_ended(baseline) || was_ended(candidate)}}));
}

void judge_ends_of_programs(const core::RunManifest& baseline,
                            const core::RunManifest& candidate,
                            Obstacles& found) {
  if (baseline.end && candidate.end) return judge_ends(*baseline.end, *candidate.end, found);
  for (const bool here : {true, false}) {
    const std::optional<ProgramEnd>& end = (here ? baseline : candidate).end;
    if (!end) {
      found.notes.push_back(Phrase("end-not-known", {{"run", run_field(here)}}));
    } else if (!is_clean(*end)) {
      found.reasons.push_back(
          Phrase("program-ended", {{"run", run_field(here)}, {"end", Phrases{end_phrase(*end)}}}));
    }
  }
}

}  // namespace

Obstacles obstacles_of(const core::RunManifest& baseline, const core::RunManifest& candidate) {
  Obstacles found;
  if (baseline.is_of_program() && candidate.is_of_program()) {
    judge_ends_of_programs(baseline, candidate, found);
  }
  for (const bool here : {true, false}) {
    Phrases hooks;
    for (const core::HookFailure& note : (here ? baseline : candidate).notes) {
      hooks.push_back(Phrase("hook-failed",
                             {{"hook", core::printable(note.where)},
                              {"times", note.count},
                              {"error", core::printable(note.error)}}));
    }
    if (hooks.empty()) continue;
    found.reasons.push_back(
        Phrase("hooks-failed", {{"run", run_field(here)}, {"hooks", std::move(hooks)}}));
  }
  return found;
}

}  // namespace repro_check::comparators
