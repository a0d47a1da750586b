// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cmd/render/json/json_text.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

using comparators::ItemSet;
using comparators::TrialOutcome;

constexpr std::size_t kShownTrials = 10;

const char* status_word(BisectStatus status) {
  switch (status) {
    case BisectStatus::kReduced:
      return "reduced";
    case BisectStatus::kReproducible:
      return "reproducible";
    case BisectStatus::kNotSettings:
      return "not_settings";
    case BisectStatus::kNotJudged:
      break;
  }
  return "not_judged";
}

/// The recording of exactly these items.
const BisectTrial* trial_of(const BisectResult& result, const ItemSet& items) {
  const auto found = std::ranges::find(result.trials, items, &BisectTrial::items);
  return found == result.trials.end() ? nullptr : &*found;
}

std::string change_text(const configs::SettingChange& item) {
  return fmt::format("{} {} -> {}", item.pointer, item.baseline, item.candidate);
}

std::string names_of(const BisectPlan& plan, const ItemSet& items) {
  std::string names;
  for (const std::size_t item : items) {
    names += (names.empty() ? "" : ", ") + plan.items[item].pointer;
  }
  return names.empty() ? "nothing" : names;
}

Line verdict(const BisectPlan& plan, const BisectResult& result) {
  const std::string of = format_count(plan.items.size(), "change");
  Line line;
  switch (result.status) {
    case BisectStatus::kReduced: {
      const ItemSet& items = result.reduction.items;
      line.put("REDUCED", Role::kBad);
      line.put(fmt::format(" to {} of {}: ", format_count(items.size()), of));
      line.put(change_text(plan.items[items.front()]));
      if (items.size() > 1) line.put(fmt::format(", and {} more", items.size() - 1));
      return line;
    }
    case BisectStatus::kReproducible:
      line.put("REPRODUCIBLE", Role::kGood);
      return line.put(fmt::format(": {} make no difference, there is nothing to reduce", of));
    default:
      line.put("NOT REDUCED", Role::kBad);
      return line.put(
          ": two runs of the baseline alone diverge, so the divergence does not depend on the "
          "changes alone");
  }
}

void add_reduction(Page& page, const BisectPlan& plan, const BisectResult& result) {
  const ItemSet& items = result.reduction.items;
  for (const std::size_t item : items) {
    page.prose(item == items.front() ? "needed" : "", change_text(plan.items[item]), 3);
  }
  if (const BisectTrial* trial = trial_of(result, items)) page.prose("with it", trial->headline, 4);
  if (result.rest) {
    ItemSet rest;
    for (std::size_t item = 0; item < plan.items.size(); ++item) {
      if (std::ranges::find(items, item) == items.end()) rest.push_back(item);
    }
    const std::string what =
        *result.rest == TrialOutcome::kPasses ? "make no difference by themselves"
        : *result.rest == TrialOutcome::kShows
            ? "diverge without it too: bisect again without what is needed here"
            : "could not be judged by themselves";
    page.prose("the rest", fmt::format("{}: {}", names_of(plan, rest), what), 4);
  }
  if (!result.reduction.is_certain) {
    page.prose("",
               "whether all that is named is needed is not known: a trial without a part of it "
               "could not be judged",
               2);
  }
}

void add_trials(Page& page, const BisectPlan& plan, const BisectResult& result, bool everything) {
  page.prose("trials",
             fmt::format("{}; {} recorded now, {} known from before",
                         format_count(result.trials.size()),
                         format_count(result.recorded, "run"),
                         format_count(result.known)),
             2);
  std::size_t left =
      everything ? result.trials.size() : std::min(kShownTrials, result.trials.size());
  for (const BisectTrial& trial : result.trials) {
    if (left-- == 0) break;
    page.prose("",
               fmt::format("{}{}: {}",
                           outcome_name(trial.outcome),
                           trial.is_flaky ? " (its runs do not agree)" : "",
                           names_of(plan, trial.items)),
               everything ? 20 : 1);
  }
  if (!everything && result.trials.size() > kShownTrials) {
    page.prose("", fmt::format("... and {} more: -v", result.trials.size() - kShownTrials), 1);
  }
}

Json json_names(const BisectPlan& plan, const ItemSet& items) {
  Json out = Json::array();
  for (const std::size_t item : items) out.push_back(json_text(plan.items[item].pointer));
  return out;
}

Json json_changes(const BisectPlan& plan, const BisectResult& result) {
  Json out = Json::array();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const ItemSet& needed = result.reduction.items;
    const bool is_reduced = result.status == BisectStatus::kReduced;
    Json item;
    item["name"] = json_text(plan.items[i].pointer);
    item["baseline"] = json_text(plan.items[i].baseline);
    item["candidate"] = json_text(plan.items[i].candidate);
    item["needed"] =
        is_reduced ? Json(std::ranges::find(needed, i) != needed.end()) : Json(nullptr);
    out.push_back(std::move(item));
  }
  return out;
}

Json json_trials(const BisectPlan& plan, const BisectResult& result) {
  Json out = Json::array();
  for (const BisectTrial& trial : result.trials) {
    Json item;
    item["changes"] = json_names(plan, trial.items);
    item["outcome"] = outcome_name(trial.outcome);
    item["flaky"] = trial.is_flaky;
    item["headline"] = json_text(trial.headline);
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace

std::string bisect_text(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options) {
  std::string first = verdict(plan, result).str(options.color) + "\n";
  if (options.verbosity < 0) return first;
  Page page;
  if (result.status == BisectStatus::kReduced) add_reduction(page, plan, result);
  if (result.is_flaky()) {
    page.prose("flaky",
               "some runs of one and the same setting do not agree: the divergence does not depend "
               "on the changes alone",
               3);
    page.prose("mend", "see which operator is not repeatable: run -n 10", 2, Role::kHint);
  }
  if (!plan.note.empty()) page.prose("note", plan.note, 4);
  add_trials(page, plan, result, options.verbosity > 0 || options.all);
  page.prose("log", escape_name((plan.directory / kBisectLogName).string()), 2);
  return first + page.str(options.color, {}, options.columns);
}

std::string bisect_json(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options) {
  Json out;
  out["format"] = "repro-check-bisect";
  out["version"] = "1.1";
  out["status"] = status_word(result.status);
  out["exit_code"] = static_cast<int>(exit_code_of(result));
  out["headline"] = json_text(verdict(plan, result).raw());
  out["changes"] = json_changes(plan, result);
  out["note"] = json_text_or_null(plan.note);
  out["reduced"] = result.status == BisectStatus::kReduced
                       ? json_names(plan, result.reduction.items)
                       : Json(nullptr);
  out["certain"] = result.reduction.is_certain;
  out["rest"] = result.rest ? Json(outcome_name(*result.rest)) : Json(nullptr);
  out["flaky"] = result.is_flaky();
  out["trials"] = json_trials(plan, result);
  out["recorded"] = json_integer(result.recorded);
  out["known"] = json_integer(result.known);
  out["log"] = json_text((plan.directory / kBisectLogName).string());
  return to_document(out, options.pretty_json);
}

}  // namespace repro_check::cmd
