// SPDX-License-Identifier: Apache-2.0
#include "comparators/detail/compute_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "comparators/detail/op_text.h"
#include "comparators/differences.h"
#include "comparators/nondeterministic_operators.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::string_view kEqualInputs =
    "its inputs and weights were bit-equal, its output was not";

/// One operator and what is known of it, asked row by row.
struct Case {
  const core::OpRecord& baseline;
  const core::OpRecord& candidate;
  const OpFindings& findings;
  const Evidence& evidence;
};

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

std::optional<Cause> generator_algorithm(const Case& c) {
  if (!c.baseline.generator || !c.candidate.generator) return std::nullopt;
  const std::string& here = c.baseline.generator->device;
  const std::string& there = c.candidate.generator->device;
  if (here == there) return std::nullopt;
  return Cause{
      "generator algorithm",
      fmt::format(
          "it drew on {} and on {}, whose generators do not give the same numbers", here, there),
      "set \"rng\": \"host\", so that both draw on the CPU"};
}

std::optional<Cause> uninitialised(const Case& c) {
  if (!c.findings.reads_uninitialised) return std::nullopt;
  return Cause{"uninitialised memory",
               "it reads memory that no operator has written since it was allocated",
               "fill the tensor in the model (zeros instead of empty); \"determinism\": \"error\" "
               "fills fresh memory where LibTorch can, and shows who reads it"};
}

std::optional<Cause> overflow(const Case& c) {
  for (const TensorComparison& output : c.findings.outputs) {
    for (const Sample& sample : output.samples) {
      const bool infinite = sample.candidate == "inf" || sample.candidate == "-inf";
      const double from = std::strtod(sample.baseline.c_str(), nullptr);
      if (!infinite || !std::isfinite(from)) continue;
      const double greatest = output.baseline.dtype == core::Dtype::kFloat16      ? 65504.0
                              : output.baseline.dtype == core::Dtype::kFloat8E5M2 ? 57344.0
                                                                                  : 3.4e38;
      if (std::abs(from) <= greatest / 2) continue;
      return Cause{"overflow",
                   fmt::format("{} became {}: overflow of {}",
                               sample.baseline,
                               sample.candidate,
                               core::dtype_name(output.baseline.dtype)),
                   "use a wider \"dtype\", or scale the values (loss scale, normalisation)"};
    }
  }
  return std::nullopt;
}

std::optional<Cause> ties(const Case& c) {
  if (!breaks_ties(*c.baseline.op) || c.findings.outputs.empty()) return std::nullopt;
  const bool only_indices =
      std::ranges::all_of(c.findings.outputs, [](const TensorComparison& output) {
        return output.baseline.dtype == core::Dtype::kInt64 && output.baseline.slot != "0";
      });
  if (!only_indices) return std::nullopt;
  return Cause{"ties broken differently",
               "its values are equal and its indices are not: equal values were taken in another "
               "order",
               "use a stable sort, or do not let the order of equal values matter"};
}

std::optional<Cause> layout(const Case& c) {
  if (!c.findings.input_strides_differ) return std::nullopt;
  return Cause{"layout differs",
               "its inputs hold the same values in another memory layout, which selects another "
               "kernel or order of addition",
               "bring the tensor into one memory format in both runs (contiguous(memory_format))"};
}

std::optional<Cause> surroundings(const Case& c, DifferenceGroup group) {
  const std::vector<std::string> texts = of_group(*c.evidence.differences, group);
  if (texts.empty()) return std::nullopt;
  const std::string evidence =
      fmt::format("{}; suspect: {}", kEqualInputs, suspects(*c.evidence.differences));
  if (group == DifferenceGroup::kThreads) {
    return Cause{"threads", evidence, "set the same \"threads\" in both runs"};
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

std::optional<Cause> nondeterministic_kernel(const Case& c) {
  const auto why = known_nondeterminism(c.baseline);
  if (!why) return std::nullopt;
  return Cause{
      "nondeterministic kernel",
      fmt::format(
          "{}; {} is known for it: {} (likely)", kEqualInputs, operator_text(c.baseline), *why),
      "set \"determinism\": \"error\", which takes a deterministic kernel or refuses, or "
      "\"threads\": 1"};
}

Cause unexplained(const Case& c) {
  std::string checked = "arguments, generator, memory layout, settings, environment and threads";
  if (draws(c) && !c.baseline.generator && !c.candidate.generator) {
    checked =
        "arguments, memory layout, settings, environment and threads (generator positions are "
        "not recorded)";
  }
  return {
      "unexplained",
      fmt::format("{}; checked and equal: {}", kEqualInputs, checked),
      "record again with \"dump\": {\"depth\": \"all\"} to see the kernel inside, and repeat the "
      "run to see whether it differs each time"};
}

/// First row that holds is the cause; names of later ones are added to it.
void add(Cause& cause, const std::optional<Cause>& found) {
  if (!found) return;
  if (cause.name.empty()) {
    cause = *found;
  } else {
    cause.evidence += fmt::format("; also: {}", found->name);
  }
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

Attribution attribute_compute(const core::OpRecord& baseline,
                              const core::OpRecord& candidate,
                              const OpFindings& findings,
                              const Evidence& evidence) {
  const Case c{baseline, candidate, findings, evidence};
  Attribution result;
  const auto argument = argument_differs(c);
  const auto stream = rng_stream(c);
  const auto memory = uninitialised(c);
  add(result.cause, argument);
  add(result.cause, stream);
  if (!stream) add(result.cause, generator_algorithm(c));
  add(result.cause, memory);
  add(result.cause, overflow(c));
  add(result.cause, ties(c));
  add(result.cause, layout(c));
  if (result.cause.name.empty() || result.cause.name == "overflow") {
    add(result.cause, surroundings(c, DifferenceGroup::kSettings));
    add(result.cause, surroundings(c, DifferenceGroup::kEnvironment));
    add(result.cause, surroundings(c, DifferenceGroup::kThreads));
    add(result.cause, nondeterministic_kernel(c));
  }
  if (result.cause.name.empty()) result.cause = unexplained(c);
  if (argument) return result;
  if (stream) {
    result.kind = DivergenceKind::kRng;
  } else if (memory) {
    result.kind = DivergenceKind::kUninitialised;
  }
  return result;
}

Cause mismatch_cause(const OpFindings& findings, const Evidence& evidence) {
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

}  // namespace repro_check::comparators::detail
