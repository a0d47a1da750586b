// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/compute_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "comparators/cause/differences.h"
#include "comparators/cause/nondeterministic_operators.h"
#include "comparators/report/op_text.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators::detail {

std::string describe_unwritten(const core::OpRecord& baseline,
                               const core::OpRecord& candidate,
                               const Evidence& evidence) {
  const core::TensorRecord* tensor = unwritten_argument(baseline);
  if (tensor != nullptr) {
    return evidence.baseline_allocations->describe(*tensor, *evidence.baseline_dump);
  }
  tensor = unwritten_argument(candidate);
  if (tensor == nullptr) return {};
  return evidence.candidate_allocations->describe(*tensor, *evidence.candidate_dump);
}

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

/// Where the model file or the mode in which it runs says what the argument is; empty where the
/// model itself does.
std::string_view argument_advice(const Case& c) {
  if (c.evidence.baseline->model_digest != c.evidence.candidate->model_digest) {
    return "two model files were run, and each holds an argument of its own: run one \"model\" in "
           "both, or write the same value into both";
  }
  const auto is_of_mode = [](const ScalarDifference& argument) {
    constexpr std::array<std::string_view, 6> kNames{
        "train", "training", "p", "dropout", "dropout_p", "cudnn_enabled"};
    return std::ranges::find(kNames, argument.name) != kNames.end();
  };
  if (std::ranges::any_of(c.findings.arguments, is_of_mode)) {
    return "run both in the same \"model\": {\"mode\"}, with the same \"disable_dropout\"";
  }
  return {};
}

std::optional<Cause> argument_differs(const Case& c) {
  if (c.findings.arguments.empty()) return std::nullopt;
  std::vector<std::string> texts;
  for (const ScalarDifference& argument : c.findings.arguments) texts.push_back(argument.text());
  Cause cause(CauseKind::kArgument,
              fmt::format("it was called with other arguments: {}", fmt::join(texts, "; ")));
  if (const std::string_view advice = argument_advice(c); !advice.empty()) cause.advice = advice;
  return cause;
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
  Cause cause(CauseKind::kRngStream,
              fmt::format("it draws random numbers, its inputs were bit-equal, and {}", parting));
  if (seeds) cause.advice = "set one \"seed\" for both runs";
  if (is_dropout(*c.baseline.op)) {
    cause.advice += "; \"disable_dropout\": true takes this randomness out";
  }
  return cause;
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
    return Cause(
        CauseKind::kGeneratorAlgorithm,
        fmt::format(
            "it drew on {} and on {}, whose generators do not give the same numbers", here, there));
  }
  const std::string from = version_of(*c.evidence.baseline);
  const std::string to = version_of(*c.evidence.candidate);
  if (from == to) return std::nullopt;
  return Cause(CauseKind::kGeneratorAlgorithm,
               fmt::format("it drew from one place of the stream, in LibTorch {} and {}, which may "
                           "turn the same draws into other numbers",
                           from,
                           to),
               "set \"rng\": \"host\", or take one LibTorch for both runs");
}

std::optional<Cause> surroundings(const Case& c, DifferenceGroup group) {
  const std::vector<Suspect>& suspects = c.evidence.suspects;
  if (std::ranges::find(suspects, group, &Suspect::group) == suspects.end()) return std::nullopt;
  const std::string evidence =
      fmt::format("{}; suspect: {}", equal_inputs(c.findings), suspects_text(suspects));
  if (group == DifferenceGroup::kThreads) {
    return Cause(CauseKind::kThreads,
                 evidence + "; work split among other threads adds in another order");
  }
  if (group == DifferenceGroup::kSettings) {
    return Cause(CauseKind::kSettings, evidence, settings_advice(suspects));
  }
  return Cause(CauseKind::kEnvironment, evidence);
}

std::uint64_t threads_of(const core::RunManifest& manifest) {
  const std::string* text = core::used_setting(manifest, "threads.intra_op");
  return text == nullptr ? 0 : std::strtoull(text->c_str(), nullptr, 10);
}

std::optional<Cause> nondeterministic_kernel(const Case& c) {
  if (const auto why = known_nondeterminism(c.baseline)) {
    Cause cause(CauseKind::kNondeterministicKernel,
                fmt::format("{}; {} is known for it: {}{}",
                            equal_inputs(c.findings),
                            operator_text(c.baseline),
                            *why,
                            kLikely));
    if (!on_accelerator(c.baseline)) cause.advice += ", or \"threads\": 1";
    return cause;
  }
  const std::uint64_t threads =
      std::max(threads_of(*c.evidence.baseline), threads_of(*c.evidence.candidate));
  const auto why = differs_between_processes(c.baseline, threads);
  if (!why) return std::nullopt;
  return Cause(CauseKind::kNondeterministicKernel,
               fmt::format("{}; of {} on {} threads it is known that {}{}",
                           equal_inputs(c.findings),
                           operator_text(c.baseline),
                           threads,
                           *why,
                           kLikely),
               "set \"threads\": 1");
}

const core::TensorRecord* moved_tensor(const core::OpRecord& record) {
  const auto moved = std::ranges::find(record.tensors,
                                       core::InputWatch::kMoved,
                                       [](const core::TensorRecord& t) { return t.watch; });
  return moved == record.tensors.end() ? nullptr : &*moved;
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

/// Smallest normal and largest finite number of a format.
struct Range {
  double normal = 0;
  double greatest = 0;
  bool saturates_to_nan = false;  ///< has no infinity
};

std::optional<Range> range_of(core::Dtype dtype) {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kFloat64:
      return Range{std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
    case Dtype::kFloat32:
      return Range{static_cast<double>(std::numeric_limits<float>::min()),
                   static_cast<double>(std::numeric_limits<float>::max())};
    case Dtype::kBFloat16:
      return Range{0x1p-126, 0x1.FEp127};
    case Dtype::kFloat16:
      return Range{0x1p-14, 65504};
    case Dtype::kFloat8E5M2:
      return Range{0x1p-14, 57344};
    case Dtype::kFloat8E4M3FN:
      return Range{0x1p-6, 448, true};
    default:
      return std::nullopt;
  }
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

bool flushed(const Sample& sample, const Range& range) {
  const double from = std::abs(number(sample.baseline));
  const double to = std::abs(number(sample.candidate));
  const auto subnormal = [&](double value) { return value > 0 && value < range.normal; };
  return (from == 0 && subnormal(to)) || (to == 0 && subnormal(from));
}

bool overflowed(double from, double to, const Range& range) {
  if (!std::isfinite(from) || std::abs(from) <= range.greatest / 2) return false;
  if (std::isinf(to)) return true;
  if (std::isnan(to)) return range.saturates_to_nan;
  return std::abs(to) == range.greatest && std::abs(from) != range.greatest;
}

std::optional<Cause> uninitialised_cause(const core::OpRecord& baseline,
                                         const core::OpRecord& candidate,
                                         const Evidence& evidence) {
  if (!may_read_unwritten(baseline) && !may_read_unwritten(candidate)) return std::nullopt;
  std::string what = describe_unwritten(baseline, candidate, evidence);
  if (what.empty()) what = "an argument is memory that no operator has written in whole";
  return Cause(CauseKind::kUninitialised, std::move(what));
}

std::optional<Cause> flush_cause(const OpFindings& findings) {
  std::uint64_t seen = 0;
  std::uint64_t differing = 0;
  for (const TensorComparison& output : findings.outputs) {
    const auto range = range_of(output.baseline.dtype);
    if (!range || !output.metrics || output.samples.empty()) return std::nullopt;
    const bool all = std::ranges::all_of(
        output.samples, [&](const Sample& sample) { return flushed(sample, *range); });
    // Larger than any subnormal: something else differs too.
    if (!all || output.metrics->max_abs.value_or(0) >= range->normal) return std::nullopt;
    seen += output.samples.size();
    differing += output.metrics->n_diff;
  }
  if (seen == 0) return std::nullopt;
  return Cause(CauseKind::kFlushToZero,
               fmt::format("{} of {} differing elements were looked at: each is 0 on one side and "
                           "below the smallest normal number on the other",
                           seen,
                           differing));
}

std::optional<Cause> overflow_cause(const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    const auto range = range_of(output.baseline.dtype);
    if (!range) continue;
    for (const Sample& sample : output.samples) {
      const double from = number(sample.baseline);
      const double to = number(sample.candidate);
      if (!overflowed(from, to, *range) && !overflowed(to, from, *range)) continue;
      return Cause(CauseKind::kOverflow,
                   fmt::format("{} became {}: overflow of {}",
                               sample.baseline,
                               sample.candidate,
                               core::dtype_name(output.baseline.dtype)));
    }
  }
  return std::nullopt;
}

std::optional<Cause> ties_cause(const core::OpRecord& baseline, const OpFindings& findings) {
  if (!baseline.op || !breaks_ties(*baseline.op) || findings.outputs.empty()) return std::nullopt;
  // argmax and its like return nothing but indices, the others return them after the values.
  const bool indices_alone = baseline.op->name.starts_with("aten::arg");
  const bool only_indices =
      std::ranges::all_of(findings.outputs, [&](const TensorComparison& output) {
        return output.baseline.dtype == core::Dtype::kInt64 &&
               (indices_alone || output.baseline.slot != "0");
      });
  if (!only_indices) return std::nullopt;
  return Cause(CauseKind::kTies,
               indices_alone
                   ? "its input is equal and the indices it returns are not: equal values were "
                     "taken in another order"
                   : "its values are equal and its indices are not: equal values were taken in "
                     "another order");
}

std::optional<Cause> layout_cause(const OpFindings& findings) {
  if (!findings.input_strides_differ) return std::nullopt;
  return Cause(CauseKind::kLayout,
               "its inputs hold the same values in another memory layout, which selects another "
               "kernel or order of addition");
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
  return {CauseKind::kUnexplained, evidence};
}

}  // namespace

void add_cause(Cause& cause, std::optional<Cause> found) {
  if (!found) return;
  if (cause.kind == CauseKind::kNone) {
    cause = std::move(*found);
  } else {
    cause.also.push_back(std::move(*found));
  }
}

std::optional<Cause> race_cause(const core::TensorRecord* baseline,
                                const core::TensorRecord* candidate) {
  const auto moved = [](const core::TensorRecord* tensor) {
    return tensor != nullptr && tensor->watch == core::InputWatch::kMoved;
  };
  if (!moved(baseline) && !moved(candidate)) return std::nullopt;
  const char* where = moved(candidate) ? "the candidate" : "the baseline";
  if (moved(baseline) && moved(candidate)) where = "both runs";
  const core::TensorRecord& tensor = moved(baseline) ? *baseline : *candidate;
  const bool input = tensor.role == core::TensorRole::kInput;
  return Cause(CauseKind::kRace,
               fmt::format("another thread or stream wrote its {} {} after it was digested and "
                           "before {}, in {}: what was {} is not what was compared",
                           input ? "input" : "output",
                           tensor.slot,
                           input ? "the operator ran" : "it was stored",
                           where,
                           input ? "read" : "computed"));
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
  add_cause(cause, uninitialised_cause(baseline, candidate, evidence));
  add_cause(cause, race_cause(moved_tensor(baseline), moved_tensor(candidate)));
  add_cause(cause, flush_cause(findings));
  add_cause(cause, overflow_cause(findings));
  add_cause(cause, ties_cause(baseline, findings));
  add_cause(cause, layout_cause(findings));
  add_cause(cause, surroundings(c, DifferenceGroup::kSettings));
  add_cause(cause, surroundings(c, DifferenceGroup::kEnvironment));
  add_cause(cause, surroundings(c, DifferenceGroup::kThreads));
  add_cause(cause, nondeterministic_kernel(c));
  std::vector<std::string> missing = not_recorded(c);
  if (cause.kind == CauseKind::kNone) cause = unexplained(c, missing);
  cause.not_recorded = std::move(missing);
  if (cause.kind == CauseKind::kRngStream) {
    result.kind = DivergenceKind::kRng;
  } else if (cause.kind == CauseKind::kUninitialised) {
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
    return Cause(CauseKind::kDtypePromotion, evidence);
  }
  return std::nullopt;
}

/// Whether it may turn a result into one of another dtype, shape or layout, and not only into other
/// numbers.
bool can_change_types(const Difference& difference) {
  constexpr std::array<std::string_view, 5> kNames{
      "device", "default_dtype", "libtorch.version", "model.digest", "model.method"};
  return std::ranges::find(kNames, difference.pointer) != kNames.end() ||
         difference.pointer.starts_with("autocast.") || difference.pointer == "jit.autocast";
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
  std::vector<std::string> suspected;
  for (const Difference& difference : *evidence.differences) {
    if (can_change_types(difference)) suspected.push_back(to_text(difference));
  }
  if (!suspected.empty()) what += fmt::format("; suspect: {}", fmt::join(suspected, ", "));
  return {CauseKind::kMismatch, what};
}

}  // namespace

Cause mismatch_cause(const OpFindings& findings, const Evidence& evidence) {
  Cause cause;
  add_cause(cause, promotion(findings));
  add_cause(cause, shape_mismatch(findings, evidence));
  return cause;
}

void lead_with_mode(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    Cause& cause) {
  std::vector<std::string> texts;
  for (const std::string_view name : {core::kModelMode, core::kModelTraining}) {
    const std::string* from = core::environment_fact(baseline, name);
    const std::string* to = core::environment_fact(candidate, name);
    if (from == nullptr || to == nullptr || *from == *to) continue;
    texts.push_back(fmt::format("{} {} -> {}", name, *from, *to));
  }
  if (texts.empty()) return;
  Cause mode(CauseKind::kMode,
             fmt::format("the model ran in another mode: {}", fmt::join(texts, ", ")));
  mode.also = std::exchange(cause.also, {});
  mode.not_recorded = std::exchange(cause.not_recorded, {});
  if (cause.kind != CauseKind::kUnexplained) mode.also.insert(mode.also.begin(), std::move(cause));
  cause = std::move(mode);
}

}  // namespace repro_check::comparators::detail
