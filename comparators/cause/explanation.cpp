// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "comparators/cause/cause.h"

namespace repro_check::comparators {
namespace {

using Setting = ReplayEvidence::Setting;

constexpr CauseKind kKernel = CauseKind::kNondeterministicKernel;
/// Causes that a call which does not repeat at unchanged settings leaves no room for.
constexpr std::array kWeaker{CauseKind::kUnexplained,
                             CauseKind::kLayout,
                             CauseKind::kSettings,
                             CauseKind::kEnvironment,
                             CauseKind::kThreads};

std::string setting_text(const Setting& setting) {
  std::string text = "on " + counted(setting.threads, "thread");
  if (!setting.isa.empty()) text += ", " + setting.cpu_capability;
  return text;
}

bool varies(const Setting& setting) { return setting.results.size() > 1; }

/// `4 results in 10 calls on 2 threads`
std::string count_text(const Setting& setting) {
  return fmt::format("{} in {} {}",
                     counted(setting.results.size(), "result"),
                     counted(setting.calls, "call"),
                     setting_text(setting));
}

std::string side_text(const ReplayEvidence& evidence, bool baseline) {
  std::set<core::Digest> distinct;
  std::uint64_t calls = 0;
  bool known = true;
  bool recorded = true;
  bool varying = false;
  std::vector<std::string> names;
  std::vector<std::string> counts;
  for (const Setting& setting : evidence.settings) {
    if (setting.of_baseline != baseline) continue;
    distinct.insert(setting.results.begin(), setting.results.end());
    calls += setting.calls;
    known = known && setting.as_recorded.has_value();
    recorded = recorded && setting.as_recorded.value_or(false);
    varying = varying || varies(setting);
    names.push_back(setting_text(setting));
    counts.push_back(count_text(setting));
  }
  if (names.empty()) return {};
  std::string text =
      fmt::format("executed again by itself, op {} of the {} ",
                  baseline ? evidence.baseline_op.value_or(0) : evidence.candidate_op.value_or(0),
                  baseline ? "baseline" : "candidate");
  if (varying) return text + fmt::format("gives {}", fmt::join(counts, ", "));
  if (distinct.size() > 1) {
    return text + fmt::format("repeats at every setting, but not with the same result: {}",
                              fmt::join(names, " | "));
  }
  text +=
      fmt::format("gives one result in {} ({})", counted(calls, "call"), fmt::join(names, "; "));
  if (!known) return text + "; the record does not say what came out";
  return text + (recorded ? ", the recorded one" : ", and not the recorded one");
}

std::string float64_text(const ReplayEvidence& evidence) {
  if (!evidence.baseline_rmse || !evidence.candidate_rmse) return {};
  const std::string baseline = fmt::format("{:.3g}", *evidence.baseline_rmse);
  const std::string candidate = fmt::format("{:.3g}", *evidence.candidate_rmse);
  const std::string figures = fmt::format("RMSE {} | {}", baseline, candidate);
  if (!evidence.reference_ratio) return "distance from the float64 result: " + figures;
  // Nobody sees which is nearer where the figures are the same.
  if (*evidence.reference_ratio == 1 || baseline == candidate) {
    return "both sides are equally far from the float64 result: " + figures;
  }
  return fmt::format("the {} is nearer to the float64 result: {}",
                     *evidence.reference_ratio > 1 ? "candidate" : "baseline",
                     figures);
}

std::vector<std::string> sentences_of(const ReplayEvidence& evidence) {
  if (!evidence.problem.empty()) return {"not executed again: " + evidence.problem};
  std::vector<std::string> sentences;
  const auto add = [&](std::string text) {
    if (!text.empty()) sentences.push_back(std::move(text));
  };
  if (!evidence.other_arguments.empty()) {
    add("the two calls were recorded with other arguments: " + evidence.other_arguments);
  } else if (!evidence.same_inputs) {
    add("the two calls were recorded with other inputs");
  }
  add(side_text(evidence, true));
  add(side_text(evidence, false));
  add(float64_text(evidence));
  return sentences;
}

/// The setting at which one side varied most.
const Setting* most_varied(const ReplayEvidence& evidence) {
  const auto worst = std::ranges::max_element(
      evidence.settings, {}, [](const Setting& setting) { return setting.results.size(); });
  return worst == evidence.settings.end() || !varies(*worst) ? nullptr : &*worst;
}

/// Whether the side that varies does not on one thread.
bool steady_on_one_thread(const ReplayEvidence& evidence) {
  bool steady = false;
  for (const Setting& setting : evidence.settings) {
    if (setting.threads != 1) continue;
    if (varies(setting)) return false;
    steady = true;
  }
  return steady;
}

Cause confirmed(const ReplayEvidence& evidence, const Setting& setting) {
  Phrase gave("executed-gave",
              {{"results", number_field(setting.results.size())},
               {"calls", number_field(setting.calls)},
               {"threads", number_field(setting.threads)}});
  if (!setting.isa.empty()) gave.with("capability", setting.cpu_capability);
  return {kKernel,
          {std::move(gave), Phrase("confirmed")},
          Phrase(steady_on_one_thread(evidence) ? "do-one-thread-repeats"
                                                : "do-deterministic-or-other")};
}

/// The kernel becomes the cause, or stands first beside a cause that a replay says nothing about.
void put_confirmed(Cause kernel, Cause& cause) {
  std::erase_if(cause.also, [](const Cause& other) { return other.kind == kKernel; });
  if (cause.kind != kKernel && std::ranges::find(kWeaker, cause.kind) == kWeaker.end()) {
    cause.also.insert(cause.also.begin(), std::move(kernel));
    return;
  }
  if (cause.kind == kKernel) cause.kind = CauseKind::kUnexplained;  // it is said anew
  lead_with(std::move(kernel), cause);
}

void note_steady(const ReplayEvidence& evidence, Cause& cause) {
  std::uint64_t calls = 0;
  for (const Setting& setting : evidence.settings) calls += setting.calls;
  const auto rewrite = [&](Cause& each) {
    const bool is_likely = !each.evidence.empty() && each.evidence.back().key == kLikely;
    if (each.kind != kKernel || !is_likely) return;
    each.evidence.back() = Phrase("likely-not-shown", {{"calls", number_field(calls)}});
  };
  rewrite(cause);
  std::ranges::for_each(cause.also, rewrite);
}

/// Of the thread counts and instruction sets tried, whether they change what comes out.
void judge_threads(const ReplayEvidence& evidence, Cause& cause) {
  if (cause.kind != CauseKind::kThreads) return;
  std::set<core::Digest> results;
  std::set<std::uint64_t> counts;
  for (const Setting& setting : evidence.settings) {
    if (!setting.of_baseline || !setting.isa.empty()) continue;
    results.insert(setting.results.begin(), setting.results.end());
    counts.insert(setting.threads);
  }
  if (counts.size() < 2) return;
  cause.evidence.push_back(
      Phrase(results.size() > 1 ? "by-threads-confirmed" : "by-threads-not-confirmed",
             {{"threads", RankList(counts.begin(), counts.end())}}));
}

}  // namespace

std::optional<ExplainedCall> call_to_explain(const Report& report) {
  if (report.status != Status::kDiverged) return std::nullopt;
  if (const auto& first = report.first_divergence; first && first->relation == Relation::kOrigin &&
                                                   first->baseline_index &&
                                                   first->candidate_index) {
    return ExplainedCall{*first->baseline_index, *first->candidate_index};
  }
  for (const Origin& origin : report.origins) {
    const bool both = origin.baseline_index && origin.candidate_index;
    if (both && origin.relation == Relation::kOrigin) {
      return ExplainedCall{*origin.baseline_index, *origin.candidate_index};
    }
  }
  return std::nullopt;
}

void explain(ReplayEvidence evidence, Report& report) {
  evidence.sentences = sentences_of(evidence);
  auto& first = report.first_divergence;
  const bool is_first =
      first && evidence.baseline_op && first->baseline_index == evidence.baseline_op &&
      first->candidate_index == evidence.candidate_op && first->relation == Relation::kOrigin;
  if (is_first && evidence.problem.empty() && evidence.same_inputs) {
    if (const Setting* worst = most_varied(evidence)) {
      put_confirmed(confirmed(evidence, *worst), first->cause);
    } else {
      note_steady(evidence, first->cause);
      judge_threads(evidence, first->cause);
    }
  }
  report.replay = std::move(evidence);
}

}  // namespace repro_check::comparators
