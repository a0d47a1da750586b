// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/compute_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "comparators/detail/op_text.h"
#include "comparators/detail/value_cause.h"
#include "comparators/differences.h"
#include "comparators/nondeterministic_operators.h"
#include "core/manifest_lookup.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::string_view kEqualInputs =
    "its inputs and weights were bit-equal, its output was not";
constexpr std::string_view kKnownInputs =
    "those of its inputs that were recorded were bit-equal, its output was not";

/// One operator and what is known of it, asked row by row.
struct Case {
  const core::OpRecord& baseline;
  const core::OpRecord& candidate;
  const OpFindings& findings;
  const Evidence& evidence;
};

std::string_view equal_inputs(const OpFindings& findings) {
  return findings.inputs_unknown ? kKnownInputs : kEqualInputs;
}

std::vector<std::string> of_group(const std::vector<Difference>& differences,
                                  DifferenceGroup group) {
  std::vector<std::string> texts;
  for (const Difference& difference : differences) {
    if (group_of(difference) == group) texts.push_back(to_text(difference));
  }
  return texts;
}

std::optional<Cause> argument_differs(const Case& c) {
  if (c.findings.arguments.empty()) return std::nullopt;
  std::vector<std::string> texts;
  for (const ScalarDifference& argument : c.findings.arguments) texts.push_back(argument.text());
  return Cause{"argument differs",
               fmt::format("it was called with other arguments: {}", fmt::join(texts, "; ")),
               "make the two configurations the same: \"mode\", \"inputs\", and "
               "\"disable_dropout\": true for dropout"};
}

bool draws(const Case& c) {
  return c.baseline.op->seeded || c.candidate.op->seeded || c.baseline.generator ||
         c.candidate.generator;
}

std::optional<Cause> rng_stream(const Case& c) {
  if (!draws(c)) return std::nullopt;
  const auto elsewhere = c.evidence.rng->stood_elsewhere(c.baseline, c.candidate);
  if (!elsewhere.value_or(false)) return std::nullopt;
  std::string parting = c.evidence.rng->parting();
  bool seeds = c.evidence.rng->started_apart();
  if (parting.empty() && c.evidence.baseline->seed != c.evidence.candidate->seed) {
    seeds = true;
    parting = fmt::format("the generators started apart (seed {} against {})",
                          c.evidence.baseline->seed,
                          c.evidence.candidate->seed);
  }
  if (parting.empty()) parting = "its generator stood at another place";
  std::string advice = seeds ? "set one \"seed\" for both runs"
                             : "mend where the stream parted, or set \"rng\": \"host\"";
  if (is_dropout(*c.baseline.op)) {
    advice += "; \"disable_dropout\": true takes this randomness out";
  }
  return Cause{"rng stream",
               fmt::format("it draws random numbers, its inputs were bit-equal, and {}", parting),
               advice};
}

std::string version_of(const core::RunManifest& manifest) {
  return core::text_or_empty(core::environment_fact(manifest, "libtorch.version"));
}

/// To be asked where the generators stood at one place.
std::optional<Cause> generator_algorithm(const Case& c) {
  if (!c.baseline.generator || !c.candidate.generator) return std::nullopt;
  const std::string& here = c.baseline.generator->device;
  const std::string& there = c.candidate.generator->device;
  if (here != there) {
    return Cause{
        "generator algorithm",
        fmt::format(
            "it drew on {} and on {}, whose generators do not give the same numbers", here, there),
        "set \"rng\": \"host\", so that both draw on the CPU"};
  }
  const std::string from = version_of(*c.evidence.baseline);
  const std::string to = version_of(*c.evidence.candidate);
  if (from == to) return std::nullopt;
  return Cause{"generator algorithm",
               fmt::format("it drew from one place of the stream, in LibTorch {} and {}, which may "
                           "turn the same draws into other numbers",
                           from,
                           to),
               "set \"rng\": \"host\", or take one LibTorch for both runs"};
}

std::optional<Cause> surroundings(const Case& c, DifferenceGroup group) {
  const std::vector<std::string> texts = of_group(*c.evidence.differences, group);
  if (texts.empty()) return std::nullopt;
  const std::string evidence =
      fmt::format("{}; suspect: {}", equal_inputs(c.findings), suspects(*c.evidence.differences));
  if (group == DifferenceGroup::kThreads) {
    return Cause{"threads",
                 evidence + "; work split among other threads adds in another order",
                 "set the same \"threads\" in both runs"};
  }
  if (group == DifferenceGroup::kSettings) {
    return Cause{"settings differ",
                 evidence,
                 "pin them in both runs: \"determinism\": \"error\", or by name in \"settings\""};
  }
  return Cause{
      "environment differs",
      evidence,
      "numbers of two environments agree only within a tolerance: set \"compare\": "
      "{\"policy\": \"tolerance\"}, or pin \"env\" (ATEN_CPU_CAPABILITY, MKL_CBWR) and the "
      "versions"};
}

std::uint64_t threads_of(const core::RunManifest& manifest) {
  const std::string* text = core::used_setting(manifest, "threads.intra_op");
  return text == nullptr ? 0 : std::strtoull(text->c_str(), nullptr, 10);
}

std::optional<Cause> nondeterministic_kernel(const Case& c) {
  if (const auto why = known_nondeterminism(c.baseline)) {
    return Cause{
        "nondeterministic kernel",
        fmt::format("{}; {} is known for it: {} (likely)",
                    equal_inputs(c.findings),
                    operator_text(c.baseline),
                    *why),
        "set \"determinism\": \"error\", which takes a deterministic kernel or refuses, or "
        "\"threads\": 1"};
  }
  const std::uint64_t threads =
      std::max(threads_of(*c.evidence.baseline), threads_of(*c.evidence.candidate));
  const auto why = differs_between_processes(c.baseline, threads);
  if (!why) return std::nullopt;
  return Cause{"nondeterministic kernel",
               fmt::format("{}; of {} on {} threads it is known that {} (likely)",
                           equal_inputs(c.findings),
                           operator_text(c.baseline),
                           threads,
                           *why),
               "set \"threads\": 1, or call the operator once on a large tensor before the run"};
}

const core::TensorRecord* moved_input(const core::OpRecord& record) {
  const auto moved = std::ranges::find(record.tensors,
                                       core::InputWatch::kMoved,
                                       [](const core::TensorRecord& t) { return t.watch; });
  return moved == record.tensors.end() ? nullptr : &*moved;
}

/// The digests are equal, and what the operator read is not what they are of.
std::optional<Cause> race(const Case& c) {
  const core::TensorRecord* from = moved_input(c.baseline);
  const core::TensorRecord* to = moved_input(c.candidate);
  if (from == nullptr && to == nullptr) return std::nullopt;
  const char* where = to == nullptr ? "the baseline" : "the candidate";
  if (from != nullptr && to != nullptr) where = "both runs";
  return Cause{"race on a tensor in use",
               fmt::format("another thread or stream wrote its input {} after it was digested and "
                           "before the operator ran, in {}: what was read is not what was compared",
                           (from != nullptr ? from : to)->slot,
                           where),
               "wait for the other thread or stream before the tensor is written or read, or give "
               "the operator a clone()"};
}

bool has_layout(const core::OpRecord& record) {
  return std::ranges::all_of(record.tensors, [](const core::TensorRecord& tensor) {
    return tensor.role != core::TensorRole::kInput || tensor.shape.empty() ||
           tensor.layout != "strided" || !tensor.strides.empty();
  });
}

/// Whether some output lies where an input does: an operator that works in place, or a view.
bool writes_in_place(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& output) {
    return output.role == core::TensorRole::kOutput && output.storage >= 0 &&
           output.producer == static_cast<std::int64_t>(record.index) &&
           std::ranges::any_of(record.tensors, [&](const core::TensorRecord& input) {
             return input.role == core::TensorRole::kInput && input.storage == output.storage;
           });
  });
}

bool was_watched(const core::OpRecord& record) {
  return std::ranges::all_of(record.tensors, [](const core::TensorRecord& tensor) {
    return tensor.role != core::TensorRole::kInput || tensor.storage < 0 ||
           tensor.state != core::ContentState::kHashed ||
           tensor.watch != core::InputWatch::kNotWatched;
  });
}

/// Rows that could not be asked because no dump holds their evidence.
std::vector<std::string> not_recorded(const Case& c) {
  std::vector<std::string> missing;
  const auto add = [&](bool holds, const char* what) {
    if (holds) missing.emplace_back(what);
  };
  add(c.findings.inputs_unknown, "the content of some of its inputs");
  add(draws(c) && !c.baseline.generator && !c.candidate.generator, "generator positions");
  add(std::ranges::any_of(c.findings.outputs,
                          [](const TensorComparison& output) {
                            return output.outcome == TensorOutcome::kBeyond && !output.metrics;
                          }),
      "values (overflow, flush to zero)");
  add(!has_layout(c.baseline) || !has_layout(c.candidate), "memory layout");
  add(writes_in_place(c.baseline) && !(was_watched(c.baseline) && was_watched(c.candidate)),
      "whether its value was changed by another thread while in use");
  const auto& from = *c.evidence.baseline;
  const auto& to = *c.evidence.candidate;
  add(from.settings.empty() || to.settings.empty(), "settings");
  add(from.environment.empty() || to.environment.empty(), "environment");
  add(core::used_setting(from, "threads.intra_op") == nullptr ||
          core::used_setting(to, "threads.intra_op") == nullptr,
      "thread counts");
  return missing;
}

Cause unexplained(const Case& c, const std::vector<std::string>& missing) {
  std::vector<std::string_view> checked{"arguments"};
  const auto add = [&](std::string_view what, std::string_view row) {
    if (std::ranges::find(missing, row) == missing.end()) checked.push_back(what);
  };
  if (draws(c)) add("generator", "generator positions");
  add("memory layout", "memory layout");
  add("settings", "settings");
  add("environment", "environment");
  add("threads", "thread counts");
  std::string evidence =
      fmt::format("{}; checked and equal: {}", equal_inputs(c.findings), fmt::join(checked, ", "));
  if (!missing.empty()) evidence += fmt::format("; not recorded: {}", fmt::join(missing, ", "));
  return {"unexplained",
          evidence,
          "record again with \"dump\": {\"depth\": \"all\"} to see the kernel inside, and repeat "
          "the run to see whether it differs each time"};
}

}  // namespace

std::string suspects(const std::vector<Difference>& differences) {
  std::vector<std::string> texts;
  for (const DifferenceGroup group :
       {DifferenceGroup::kThreads, DifferenceGroup::kSettings, DifferenceGroup::kEnvironment}) {
    for (std::string& text : of_group(differences, group)) texts.push_back(std::move(text));
  }
  if (texts.empty()) return {};
  if (texts.size() == 1) return texts.front() + ", the only setting that differs";
  constexpr std::size_t kShown = 3;
  const std::size_t total = texts.size();
  if (total > kShown) texts.resize(kShown);
  std::string text = fmt::format("{}", fmt::join(texts, ", "));
  return total > kShown ? fmt::format("{} and {} more", text, total - kShown) : text;
}

void add_cause(Cause& cause, std::optional<Cause> found) {
  if (!found) return;
  if (cause.name.empty()) {
    cause = std::move(*found);
  } else {
    cause.also.push_back(std::move(*found));
  }
}

Attribution attribute_compute(const core::OpRecord& baseline,
                              const core::OpRecord& candidate,
                              const OpFindings& findings,
                              const Evidence& evidence) {
  const Case c{baseline, candidate, findings, evidence};
  Attribution result;
  Cause& cause = result.cause;
  add_cause(cause, argument_differs(c));
  const auto stream = rng_stream(c);
  add_cause(cause, stream);
  if (!stream) add_cause(cause, generator_algorithm(c));
  add_cause(cause, uninitialised_cause(findings));
  add_cause(cause, race(c));
  add_cause(cause, flush_cause(findings));
  add_cause(cause, overflow_cause(findings));
  add_cause(cause, ties_cause(baseline, findings));
  add_cause(cause, layout_cause(findings));
  add_cause(cause, surroundings(c, DifferenceGroup::kSettings));
  add_cause(cause, surroundings(c, DifferenceGroup::kEnvironment));
  add_cause(cause, surroundings(c, DifferenceGroup::kThreads));
  add_cause(cause, nondeterministic_kernel(c));
  std::vector<std::string> missing = not_recorded(c);
  if (cause.name.empty()) cause = unexplained(c, missing);
  cause.not_recorded = std::move(missing);
  if (cause.name == "rng stream") {
    result.kind = DivergenceKind::kRng;
  } else if (cause.name == "uninitialised memory") {
    result.kind = DivergenceKind::kUninitialised;
  }
  return result;
}

namespace {

/// Another dtype from inputs of one: the operator promoted otherwise, or was told to.
std::optional<Cause> promotion(const OpFindings& findings) {
  if (!findings.inputs.empty()) return std::nullopt;
  for (const TensorComparison& output : findings.outputs) {
    if (output.outcome != TensorOutcome::kMismatch ||
        output.baseline.dtype == output.candidate.dtype || output.baseline.slot.empty() ||
        output.candidate.slot.empty()) {
      continue;
    }
    std::string evidence = fmt::format(
        "output {} {}, and its tensor inputs are equal", output.baseline.slot, output.note);
    for (const ScalarDifference& argument : findings.arguments) evidence += "; " + argument.text();
    return Cause{"dtype promotion",
                 evidence,
                 "bring both runs to one type: the same autocast, the same default dtype, the same "
                 "\"dtype\" argument; another LibTorch may promote otherwise"};
  }
  return std::nullopt;
}

Cause shape_mismatch(const OpFindings& findings, const Evidence& evidence) {
  std::string what = "the number of its results differs";
  for (const TensorComparison& output : findings.outputs) {
    if (output.outcome != TensorOutcome::kMismatch) continue;
    what = fmt::format("output {} {}",
                       output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot,
                       output.note);
    break;
  }
  const std::string suspected = suspects(*evidence.differences);
  if (!suspected.empty()) what += fmt::format("; suspect: {}", suspected);
  return {"mismatch",
          what,
          "run both with the same \"model\", \"dtype\" and autocast; another LibTorch may return "
          "another type"};
}

}  // namespace

Cause mismatch_cause(const OpFindings& findings, const Evidence& evidence) {
  Cause cause;
  add_cause(cause, promotion(findings));
  add_cause(cause, shape_mismatch(findings, evidence));
  return cause;
}

}  // namespace repro_check::comparators::detail
