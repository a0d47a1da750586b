// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "comparators/cause/attribution.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {

Phrase set_apart(const Difference& difference, const Evidence& evidence) {
  const std::string name = difference.pointer.substr(core::kSetByProgram.size());
  return Phrase(
      "program-set",
      {{"function", name},
       {"baseline", core::with_place(evidence.baseline.manifest(), name, difference.baseline)},
       {"candidate", core::with_place(evidence.candidate.manifest(), name, difference.candidate)}});
}

Phrases all_set_apart(const Evidence& evidence) {
  Phrases phrases;
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram)) continue;
    phrases.push_back(set_apart(difference, evidence));
  }
  return phrases;
}

std::vector<Suspect> given_variables(const Evidence& evidence) {
  std::vector<Suspect> variables;
  std::ranges::copy_if(evidence.suspects,
                       std::back_inserter(variables),
                       [](const Suspect& suspect) { return suspect.pointer.starts_with("/env/"); });
  return variables;
}

namespace {

void add_given_apart(const Evidence& evidence, Phrases& phrases) {
  const std::vector<Suspect> variables = given_variables(evidence);
  if (!variables.empty()) phrases.push_back(suspects_phrase(variables, true));
}

/// What one run alone took from where no seed reaches.
void add_taken_alone(const Evidence& evidence, Phrases& phrases) {
  for (const bool of_baseline : {true, false}) {
    const core::RunManifest& own = evidence.dump(of_baseline).manifest();
    const core::RunManifest& other = evidence.dump(!of_baseline).manifest();
    for (const core::EnvironmentFact& fact : own.environment) {
      if (!fact.name.starts_with(core::kUnpinned)) continue;
      if (core::environment_fact(other, fact.name) != nullptr) continue;
      phrases.push_back(Phrase("taken-alone",
                               {{"run", run_field(of_baseline)},
                                {"function", fact.name.substr(core::kUnpinned.size())},
                                {"calls", fact.value}}));
    }
  }
}

/// Clocks, which nearly every program asks for its log, and hashes of strings, which differ in
/// every program that is not seeded from outside.
bool is_everywhere(std::string_view function) {
  return function.starts_with("time.") || function.starts_with("datetime.") || function == "hash";
}

/// What both took from where no seed reaches: `os.urandom (2 calls, first at data.py:7)`.
/// @param everywhere  of what nearly every program takes; else of all others
void add_unpinned(const Evidence& evidence, bool everywhere, Phrases& phrases) {
  std::vector<std::string> taken;
  for (const core::EnvironmentFact& fact : evidence.baseline.manifest().environment) {
    if (!fact.name.starts_with(core::kUnpinned)) continue;
    const std::string function = fact.name.substr(core::kUnpinned.size());
    const bool is_of_both =
        core::environment_fact(evidence.candidate.manifest(), fact.name) != nullptr;
    if (!is_of_both || is_everywhere(function) != everywhere) continue;
    taken.push_back(fmt::format("{} ({})", function, fact.value));
  }
  if (!taken.empty()) phrases.push_back(Phrase("taken-unpinned", {{"taken", std::move(taken)}}));
}

/// `right -> wrong`, by the words of the command lines that differ.
void add_command_apart(const Evidence& evidence, Phrases& phrases) {
  constexpr std::size_t kShown = 4;
  const auto& differences = evidence.report.differences;
  const auto found = std::ranges::find(differences, "program", &Difference::pointer);
  if (found == differences.end()) return;
  const auto words = [](const std::string& line, const std::string& other) {
    const auto theirs = core::split(other, ' ');
    std::vector<std::string_view> own;
    for (const std::string_view word : core::split(line, ' ')) {
      if (std::ranges::find(theirs, word) == theirs.end()) own.push_back(word);
    }
    const bool is_more = own.size() > kShown;
    if (is_more) own.resize(kShown);
    return own.empty() ? std::string("no more")
                       : fmt::format("{}{}", fmt::join(own, " "), is_more ? " ..." : "");
  };
  phrases.push_back(Phrase("command-lines-differ",
                           {{"baseline", words(found->baseline, found->candidate)},
                            {"candidate", words(found->candidate, found->baseline)}}));
}

/// `/project/train.py`.
void add_changed_sources(const Evidence& evidence, Phrases& phrases) {
  std::vector<std::string> files;
  for (const Difference& difference : evidence.report.differences) {
    if (difference.pointer.starts_with(kSource)) {
      files.push_back(difference.pointer.substr(kSource.size()));
    }
  }
  if (files.empty()) return;
  const bool is_one = files.size() == 1;
  phrases.push_back(Phrase("sources-changed", {{"files", std::move(files)}, {"is_one", is_one}}));
}

/// `os.urandom at data.py:7`, of what a program took from where no seed reaches, as add_unpinned()
/// and add_taken_alone() say it; once where one call asks through another.
std::vector<std::string> unpinned_places(const Evidence& evidence) {
  constexpr std::string_view kFirst = "first at ";
  std::map<std::string, std::string> by_use;
  std::vector<std::string> places;
  for (const bool of_baseline : {true, false}) {
    for (const core::EnvironmentFact& fact : evidence.dump(of_baseline).manifest().environment) {
      const std::size_t at = fact.value.find(kFirst);
      if (!fact.name.starts_with(core::kUnpinned) || at == std::string::npos) continue;
      const std::string function = fact.name.substr(core::kUnpinned.size());
      if (is_everywhere(function) || !by_use.emplace(fact.value, function).second) continue;
      std::string place = fmt::format("{} at {}", function, fact.value.substr(at + kFirst.size()));
      if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
    }
  }
  return places;
}

}  // namespace

Phrases of_host(const Evidence& evidence) {
  // What a checkpoint did not bring back explains a resumed run, and no clock.
  const auto& resume = evidence.report.resume;
  if (resume && resume->leading() != nullptr) return {};
  Phrases phrases = all_set_apart(evidence);
  add_given_apart(evidence, phrases);
  add_changed_sources(evidence, phrases);
  add_command_apart(evidence, phrases);
  add_taken_alone(evidence, phrases);
  add_unpinned(evidence, false, phrases);
  if (phrases.empty()) add_unpinned(evidence, true, phrases);
  return phrases;
}

Phrases followed_by(Phrase first, Phrases others) {
  others.insert(others.begin(), std::move(first));
  return others;
}

std::optional<Phrase> told_advice(const Evidence& evidence) {
  if (Phrases apart = all_set_apart(evidence); !apart.empty()) {
    apart.front().key = kSeedAlike;
    return std::move(apart.front());
  }
  const auto variables = given_variables(evidence);
  return variables.empty() ? std::nullopt : std::optional(settings_advice(variables));
}

std::optional<Phrase> unpinned_advice(const Evidence& evidence) {
  std::vector<std::string> places = unpinned_places(evidence);
  if (places.empty()) return std::nullopt;
  const bool is_one = places.size() == 1;
  // That alone is given a seed from outside.
  const bool is_pinned_by_seed = std::ranges::all_of(places, [](std::string_view place) {
    return place.substr(0, place.find(' ')) == "numpy.random.default_rng";
  });
  return Phrase(is_pinned_by_seed ? "do-pin-or-seed" : "do-pin",
                {{"places", std::move(places)},
                 {"is_one", is_one},
                 {"is_call", is_call(evidence.baseline.manifest())}});
}

Phrase host_advice(const Evidence& evidence) {
  if (auto told = told_advice(evidence)) return *std::move(told);
  return unpinned_advice(evidence).value_or(Phrase("do-look-at-host"));
}

void lead_with(Cause before, Cause& cause) {
  before.also = std::exchange(cause.also, {});
  before.not_recorded = std::exchange(cause.not_recorded, {});
  if (cause.kind != CauseKind::kUnexplained) {
    before.also.insert(before.also.begin(), std::move(cause));
  }
  cause = std::move(before);
}

void lead_with_host_generator(const Evidence& evidence,
                              std::uint64_t op,
                              bool in_baseline,
                              Cause& cause) {
  if (!evidence.baseline.manifest().is_of_program()) return;
  if (auto apart = evidence.host_generators.apart_at(op, in_baseline)) {
    lead_with(*std::move(apart), cause);
  }
}

void lead_with_mode(const Evidence& evidence, Cause& cause) {
  auto changes = mode_changes(evidence.baseline.manifest(), evidence.candidate.manifest());
  if (changes.empty()) return;
  lead_with({CauseKind::kMode, {Phrase("mode-apart", {{"changes", std::move(changes)}})}}, cause);
}

void name_told(const Evidence& evidence, Cause& cause) {
  if (evidence.told.empty()) return;
  const bool beside_data = !evidence.report.named_tensors.empty();
  cause.evidence.push_back(suspects_phrase(evidence.told, beside_data));
  cause.advice = settings_advice(evidence.told);
}

}  // namespace repro_check::comparators
