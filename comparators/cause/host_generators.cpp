// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/host_generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

struct Known {
  std::string_view name;  ///< as records have it
  std::string_view text;
  std::string_view seed;  ///< the function that seeds it
};
constexpr std::array kGenerators{
    Known{"random", "Python's `random`", "random.seed"},
    Known{"numpy", "NumPy's global generator", "numpy.random.seed"},
};

bool has_moved(const core::RunManifest& manifest, std::string_view name) {
  const std::string* moved =
      core::environment_fact(manifest, std::string(core::kMovedPrefix) + std::string(name));
  return moved != nullptr && *moved == "true";
}

/// `by random.seed (7) at train.py:3`, `by repro-check (0)`; empty where nobody did.
std::string seeded_by(const core::RunManifest& manifest, const Known& generator) {
  const std::string function(generator.seed);
  const std::string* given =
      core::environment_fact(manifest, std::string(core::kSetByProgram) + function);
  if (given != nullptr) {
    return fmt::format("by {} {}", function, core::with_place(manifest, function, *given));
  }
  const auto seed = core::given_seed(manifest);
  return seed ? fmt::format("by repro-check ({})", *seed) : std::string();
}

/// `train.py:3 and train.py:7` of `/home/me/train.py:3 and /home/me/train.py:7`.
std::string without_folders(std::string_view places) {
  const std::size_t end = std::min(places.find(core::kBothLines), places.size());
  const std::string file(places.substr(0, end));
  const std::string rest =
      end == places.size() ? "" : without_folders(places.substr(end + core::kBothLines.size()));
  return file.substr(file.rfind('/') + 1) +
         (rest.empty() ? "" : std::string(core::kBothLines) + rest);
}

std::string state_at_end(const core::RunManifest& manifest, const std::string& name) {
  const std::string fact =
      std::string(core::kStateAtEnd) + std::string(core::kGeneratorPrefix) + name;
  return core::text_or_empty(core::environment_fact(manifest, fact));
}

std::string found_in(const std::map<std::string, std::string>& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? std::string() : found->second;
}

/// Of one that was never seeded, or to something else.
/// @param by, other  what seeded it; empty = nothing
/// @param moved      where it moved; empty = not known
Cause cause_of_seeds(const Known& generator,
                     const core::RunManifest& run,
                     const std::string& by,
                     const std::string& other,
                     const Phrases& moved) {
  const auto cause = [&](Phrase what, Phrase advice) {
    Phrases evidence{std::move(what)};
    append(moved, evidence);
    return Cause(CauseKind::kRngStream, std::move(evidence), std::move(advice));
  };
  const FieldValue name = std::string(generator.text);
  if (by.empty() && other.empty()) {
    return cause(Phrase("never-seeded", {{"generator", name}}),
                 Phrase("do-seed-it",
                        {{"function", std::string(generator.seed)}, {"is_call", is_call(run)}}));
  }
  return cause(Phrase("seeded-apart",
                      {{"generator", name},
                       {"baseline", core::printable(by)},
                       {"candidate", core::printable(other)}}),
               Phrase("do-same-seed"));
}

}  // namespace

bool is_call(const core::RunManifest& manifest) {
  return core::environment_fact(manifest, kStateOfCalls) != nullptr;
}

HostGenerators::Readings HostGenerators::read(const core::DumpSource& dump) {
  Readings readings;
  for (std::uint64_t index = 0; index < dump.op_count(); ++index) {
    const core::OpRecord head = dump.op_head(index);
    if (!head.op || (head.op->name != core::kBatchRecord && head.op->name != core::kStepRecord)) {
      continue;
    }
    const core::OpRecord record = dump.op(index);
    Reading reading{index, op_text(record), {}, {}};
    for (const core::Argument& argument : record.arguments) {
      const auto* text = std::get_if<std::string>(&argument.value.data);
      if (text == nullptr) continue;
      const std::string_view name = argument.name;
      for (const auto& [prefix, into] : {std::pair{core::kGeneratorPrefix, &reading.state},
                                         std::pair{core::kMovedPrefix, &reading.moved}}) {
        if (name.starts_with(prefix)) into->emplace(name.substr(prefix.size()), *text);
      }
    }
    if (!reading.state.empty()) readings.push_back(std::move(reading));
  }
  return readings;
}

void HostGenerators::read_both() const {
  if (here_) return;
  here_ = read(baseline_);
  there_ = read(candidate_);
}

std::optional<Cause> HostGenerators::apart_at(std::uint64_t op, bool in_baseline) const {
  const bool moved = std::ranges::any_of(kGenerators, [this](const Known& generator) {
    return has_moved(baseline_.manifest(), generator.name) ||
           has_moved(candidate_.manifest(), generator.name);
  });
  if (!moved) return std::nullopt;
  read_both();
  const Readings& own = in_baseline ? *here_ : there_;
  const auto next = std::ranges::lower_bound(own, op, {}, &Reading::op);
  for (const Known& generator : kGenerators) {
    auto cause = apart(std::string(generator.name), static_cast<std::size_t>(next - own.begin()));
    if (cause) return cause;
  }
  return std::nullopt;
}

/// @param until  the reading behind the operator; behind the last one: the end
std::optional<Cause> HostGenerators::apart(const std::string& name, std::size_t until) const {
  const core::RunManifest& baseline = baseline_.manifest();
  const core::RunManifest& candidate = candidate_.manifest();
  const auto state = [&](const Readings& readings, const core::RunManifest& of, std::size_t at) {
    return at < readings.size() ? found_in(readings[at].state, name) : state_at_end(of, name);
  };
  const auto differs = [&](std::size_t at) {
    return state(*here_, baseline, at) != state(there_, candidate, at);
  };
  // It moved in one of the runs since the reading before the operator.
  const auto moves = [&](const Readings& readings, const core::RunManifest& of) {
    if (until == 0) return has_moved(of, name);
    return state(readings, of, until) != state(readings, of, until - 1);
  };
  if (!moves(*here_, baseline) && !moves(there_, candidate)) return std::nullopt;
  std::size_t first = 0;
  while (first <= until && !differs(first)) ++first;
  if (first > until) return std::nullopt;
  const auto& generator = *std::ranges::find(kGenerators, name, &Known::name);
  const auto places = [&](std::size_t at) {
    std::string text;
    for (const Readings* readings : {&*here_, &there_}) {
      if (!text.empty() || at >= readings->size()) continue;
      text = found_in((*readings)[at].moved, name);
    }
    if (text.empty()) return Phrases{};
    const bool are_two = text.find(core::kBothLines) != std::string::npos;
    return Phrases{Phrase(
        "moved-at", {{"are_two", are_two}, {"places", core::printable(without_folders(text))}})};
  };
  const std::string by = seeded_by(baseline, generator);
  const std::string other = seeded_by(candidate, generator);
  const bool was_never_seeded = first == 0 && by.empty() && other.empty();
  if (was_never_seeded || by != other) {
    return cause_of_seeds(generator, baseline, by, other, places(until));
  }
  // One of them has a reading there.
  const Readings& longer = here_->size() < there_.size() ? there_ : *here_;
  const std::string since = first == 0 ? "the start" : core::printable(longer.at(first - 1).where);
  Phrases evidence{
      Phrase("moved-otherwise", {{"generator", std::string(generator.text)}, {"since", since}})};
  append(places(first), evidence);
  return Cause(CauseKind::kRngStream, std::move(evidence), Phrase("do-look-what-draws"));
}

Phrases moved_generators(const core::RunManifest& manifest) {
  Phrases moved;
  for (const Known& generator : kGenerators) {
    if (!has_moved(manifest, generator.name)) continue;
    const std::string by = seeded_by(manifest, generator);
    moved.push_back(
        Phrase("generator-moved", {{"generator", std::string(generator.text)}, {"seeded", by}}));
  }
  return moved;
}

}  // namespace repro_check::comparators
