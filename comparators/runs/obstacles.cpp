// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/obstacles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/text/text.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {
namespace {

using core::ProgramEnd;

constexpr std::array<std::string_view, 2> kSides{"baseline", "candidate"};

bool is_known(const ProgramEnd& end) { return end.exit_code || !end.signal.empty(); }

/// Whether nothing says that the program did not come to its end.
bool is_clean(const ProgramEnd& end) {
  return !end.exception && end.signal.empty() && end.exit_code.value_or(0) == 0;
}

/// Whether the program was cut short, by whatever code it then ended.
bool was_ended(const ProgramEnd& end) { return end.exception || !end.signal.empty(); }

void judge_ends(const ProgramEnd& baseline, const ProgramEnd& candidate, Obstacles& found) {
  const bool both_known = is_known(baseline) && is_known(candidate);
  const bool other = both_known ? baseline != candidate : is_clean(baseline) != is_clean(candidate);
  if (other) {
    found.reasons.push_back(
        fmt::format("the programs ended otherwise: the baseline by {}, the candidate by {}",
                    describe(baseline),
                    describe(candidate)));
  } else if (was_ended(baseline)) {
    found.reasons.push_back("both programs were cut short: by " + describe(candidate));
  } else {
    return;
  }
  found.mend = was_ended(baseline) || was_ended(candidate)
                   ? "mend what ended the program, and record again"
                   : "look at what the exit codes say, and record again";
}

void judge_ends_of_programs(const core::RunManifest& baseline,
                            const core::RunManifest& candidate,
                            Obstacles& found) {
  if (baseline.end && candidate.end) return judge_ends(*baseline.end, *candidate.end, found);
  for (const auto& [side, manifest] :
       {std::pair{kSides[0], &baseline}, std::pair{kSides[1], &candidate}}) {
    if (!manifest->end) {
      found.notes.push_back(Phrase("end-not-known", {{"run", std::string(side)}}));
    } else if (!is_clean(*manifest->end)) {
      found.reasons.push_back(
          fmt::format("the program of the {} ended by {}", side, describe(*manifest->end)));
      found.mend = "record both runs with this version";
    }
  }
}

}  // namespace

Obstacles obstacles_of(const core::RunManifest& baseline, const core::RunManifest& candidate) {
  Obstacles found;
  if (baseline.is_of_program() && candidate.is_of_program()) {
    judge_ends_of_programs(baseline, candidate, found);
  }
  for (const auto& [side, manifest] :
       {std::pair{kSides[0], &baseline}, std::pair{kSides[1], &candidate}}) {
    if (manifest->notes.empty()) continue;
    found.reasons.push_back(
        fmt::format("hooks of the recorder failed in the {}, and what they record is missing: {}",
                    side,
                    describe(manifest->notes)));
    if (found.mend.empty()) found.mend = "please report this, with the program if you can";
  }
  return found;
}

std::string describe(const ProgramEnd& end) {
  std::string text = end.signal;
  if (end.exit_code) text = fmt::format("exit code {}", *end.exit_code);
  if (end.exception) {
    const core::RaisedException& raised = *end.exception;
    if (!text.empty()) text += ", by ";
    text += core::printable(raised.type);
    if (!raised.file.empty()) {
      text += " at " + core::line_text(core::printable(raised.file), raised.line);
    }
    if (!raised.thread.empty())
      text += fmt::format(" in thread {}", core::printable(raised.thread));
  }
  return text.empty() ? "unknown" : text;
}

std::string describe(const std::vector<core::HookFailure>& notes) {
  std::vector<std::string> texts;
  for (const core::HookFailure& note : notes) {
    texts.push_back(fmt::format("{} failed {} time{} ({})",
                                core::printable(note.where),
                                note.count,
                                note.count == 1 ? "" : "s",
                                core::printable(note.error)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace repro_check::comparators
