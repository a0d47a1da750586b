// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/explanation.h"

#include <fmt/format.h>

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

bool varies(const Setting& setting) { return setting.results.size() > 1; }

/// `4 results in 10 calls on 2 threads`, or the setting alone.
Phrase setting_phrase(const Setting& setting, bool with_results) {
  Phrase phrase(with_results ? "setting-gave" : "setting", {{"threads", setting.threads}});
  if (!setting.isa.empty()) phrase.with("capability", setting.cpu_capability);
  if (!with_results) return phrase;
  return phrase.with("results", setting.results.size()).with("calls", setting.calls);
}

void add_side(const ReplayEvidence& evidence, bool baseline, Phrases& said) {
  std::set<core::Digest> distinct;
  std::uint64_t calls = 0;
  bool known = true;
  bool recorded = true;
  bool varying = false;
  Phrases settings;
  Phrases gave;
  for (const Setting& setting : evidence.settings) {
    if (setting.of_baseline != baseline) continue;
    distinct.insert(setting.results.begin(), setting.results.end());
    calls += setting.calls;
    known = known && setting.as_recorded.has_value();
    recorded = recorded && setting.as_recorded.value_or(false);
    varying = varying || varies(setting);
    settings.push_back(setting_phrase(setting, false));
    gave.push_back(setting_phrase(setting, true));
  }
  if (settings.empty()) return;
  Phrase& phrase = said.emplace_back(varying               ? "executed-varies"
                                     : distinct.size() > 1 ? "executed-other-by-setting"
                                                           : "executed-one-result");
  phrase.with("op", (baseline ? evidence.baseline_op : evidence.candidate_op).value_or(0))
      .with("run", run_field(baseline))
      .with("settings", std::move(varying ? gave : settings))
      .with("calls", calls)
      .with("is_known", known)
      .with("is_recorded", known && recorded)
      .with("is_other", known && !recorded);
}

void add_distances(const ReplayEvidence& evidence, Phrases& said) {
  if (!evidence.baseline_rmse || !evidence.candidate_rmse) return;
  const double baseline = *evidence.baseline_rmse;
  const double candidate = *evidence.candidate_rmse;
  Phrase& phrase = said.emplace_back("float64-distance");
  phrase.with("baseline", baseline).with("candidate", candidate);
  if (!evidence.reference_ratio) return;
  // Nobody sees which is nearer where the figures are the same.
  const bool are_equal = *evidence.reference_ratio == 1 ||
                         fmt::format("{:.3g}", baseline) == fmt::format("{:.3g}", candidate);
  phrase.with("is_held", true).with("are_equal", are_equal);
  if (!are_equal) phrase.with("nearer", run_field(*evidence.reference_ratio <= 1));
}

Phrases said_of(const ReplayEvidence& evidence) {
  if (!evidence.problem.empty()) {
    return {Phrase("not-executed", {{"why", evidence.problem}})};
  }
  Phrases said;
  if (!evidence.other_arguments.empty()) {
    said.push_back(Phrase("calls-with-other-arguments", {{"arguments", evidence.other_arguments}}));
  } else if (!evidence.same_inputs) {
    said.emplace_back("calls-with-other-inputs");
  }
  add_side(evidence, true, said);
  add_side(evidence, false, said);
  add_distances(evidence, said);
  return said;
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
              {{"results", setting.results.size()},
               {"calls", setting.calls},
               {"threads", setting.threads}});
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
    each.evidence.back() = Phrase("likely-not-shown", {{"calls", calls}});
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
  evidence.sentences = said_of(evidence);
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
