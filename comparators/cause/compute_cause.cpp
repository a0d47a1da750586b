// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "comparators/cause/attribution.h"
#include "comparators/cause/known_kernels.h"
#include "configs/recorded_run.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

bool is_dropout(const core::OperatorInfo& op) noexcept {
  return op.name.find("dropout") != std::string::npos;
}

constexpr std::string_view kEqualInputs = "inputs-equal";
/// Of digests that are those of what was written, until an operator writes it anew.
constexpr std::string_view kEqualWhenWritten = "inputs-equal-when-written";
constexpr std::string_view kKnownInputs = "recorded-inputs-equal";

/// Whether a recording digested what an operator was given when it was called, whoever wrote it.
bool reads_inputs_again(const core::RunManifest& manifest, std::uint64_t op) {
  if (!manifest.is_of_program()) return true;
  return configs::verifies_inputs(manifest.configuration) ||
         core::contains(manifest.trace.keep_ops, op);
}

/// One operator and what is known of it, asked row by row.
struct Case {
  const JudgedCall& call;
  const Evidence& evidence;
  const core::OpRecord& baseline = call.baseline;
  const core::OpRecord& candidate = call.candidate;
  const OpFindings& findings = call.findings;
};

/// The key of the phrase that says which inputs were equal.
std::string_view equal_inputs(const Case& c) {
  if (c.findings.inputs_unknown) return kKnownInputs;
  return reads_inputs_again(c.evidence.baseline.manifest(), c.baseline.index) &&
                 reads_inputs_again(c.evidence.candidate.manifest(), c.candidate.index)
             ? kEqualInputs
             : kEqualWhenWritten;
}

/// Where the model file or the mode in which it runs says what the argument is; null where the
/// model itself does.
std::optional<Phrase> argument_advice(const Case& c) {
  if (c.evidence.baseline.manifest().model_digest != c.evidence.candidate.manifest().model_digest) {
    return Phrase("do-one-model-file");
  }
  const auto is_of_mode = [](const ScalarDifference& argument) {
    return is_word_of("train training p dropout dropout_p cudnn_enabled", argument.name);
  };
  if (std::ranges::any_of(c.findings.arguments, is_of_mode)) return Phrase("do-one-mode");
  return std::nullopt;
}

std::vector<std::string> arguments_of(const OpFindings& findings) {
  std::vector<std::string> texts;
  for (const ScalarDifference& argument : findings.arguments) texts.push_back(argument.text());
  return texts;
}

std::optional<Cause> argument_differs(const Case& c) {
  if (c.findings.arguments.empty()) return std::nullopt;
  if (c.baseline.op->name == core::kStepRecord) return told_otherwise(c.findings);
  Cause cause(
      CauseKind::kArgument,
      {Phrase("arguments-differ",
              {{"operator", operator_text(c.baseline)}, {"arguments", arguments_of(c.findings)}})});
  if (c.evidence.baseline.manifest().is_of_program()) {
    append(of_host(c.evidence), cause.evidence);
    cause.advice = told_advice(c.evidence).value_or(Phrase("do-look-at-argument"));
  }
  if (auto advice = argument_advice(c)) cause.advice = std::move(advice);
  name_told(c.evidence, cause);
  return cause;
}

bool draws(const Case& c) {
  return c.baseline.op->seeded || c.candidate.op->seeded || c.baseline.generator ||
         c.candidate.generator;
}

/// Whether neither repro-check nor a line of the program gave PyTorch's generators a seed.
bool is_unseeded(const core::RunManifest& manifest) {
  return manifest.is_of_program() && !core::given_seed(manifest) &&
         std::ranges::none_of(kTorchSeeders, [&](std::string_view function) {
           const std::string fact = std::string(core::kSetByProgram).append(function);
           return core::environment_fact(manifest, fact) != nullptr;
         });
}

/// What the program itself gave the generators of the process as a seed, where that is not the same
/// in both runs: no seed from outside comes after it.
std::optional<Phrase> seeds_alike_advice(const Evidence& evidence) {
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram)) continue;
    const std::string_view name =
        std::string_view(difference.pointer).substr(core::kSetByProgram.size());
    if (std::ranges::find(kTorchSeeders, name) == kTorchSeeders.end()) continue;
    Phrase advice = set_apart(difference, evidence);
    advice.key = kSeedAlike;
    return advice;
  }
  return std::nullopt;
}

/// Draws from a generator of the process that nobody seeded in either run.
bool draws_unseeded(const Case& c) {
  const auto& from = c.baseline.generator;
  const auto& to = c.candidate.generator;
  if (!from || !to || has_own_generator(c.baseline) || c.evidence.report.resume) return false;
  if (!is_unseeded(c.evidence.baseline.manifest()) || !is_unseeded(c.evidence.candidate.manifest()))
    return false;
  // LibTorch takes 53 random bits for a generator that it makes. Below that lies what a line of the
  // program gave, which nobody sees in C++.
  constexpr std::uint64_t kMostGiven = 0xFFFF'FFFFU;
  if (from->seed != to->seed) return from->seed > kMostGiven && to->seed > kMostGiven;
  // One process that made both calls has one seed, and the second goes on from the first.
  return is_call(c.evidence.baseline.manifest()) && c.evidence.rng.process_started_apart();
}

/// What the program set otherwise in each run stays to be said.
Cause not_seeded(const Case& c) {
  return {CauseKind::kRngStream,
          followed_by(Phrase("process-not-seeded"), all_set_apart(c.evidence)),
          Phrase("do-seed-program", {{"is_call", is_call(c.evidence.baseline.manifest())}})};
}

std::optional<Cause> rng_stream(const Case& c) {
  if (!draws(c)) return std::nullopt;
  const auto elsewhere = c.evidence.rng.stood_elsewhere(c.call);
  if (!elsewhere.value_or(false)) return std::nullopt;
  if (draws_unseeded(c)) return not_seeded(c);
  Phrases parting = c.evidence.rng.parting();
  const std::string here = core::given_seed_text(c.evidence.baseline.manifest());
  const std::string there = core::given_seed_text(c.evidence.candidate.manifest());
  bool seeds = c.evidence.rng.started_apart();
  if (parting.empty() && here != there) {
    seeds = true;
    parting = {seeds_apart(here, there)};
  }
  if (parting.empty()) parting = {Phrase("generator-elsewhere")};
  append(all_set_apart(c.evidence), parting);
  Cause cause(CauseKind::kRngStream, followed_by(Phrase("draws-apart"), std::move(parting)));
  const auto advise = [&](std::string_view key) {
    cause.advice = Phrase(key, {{"is_dropout", is_dropout(*c.baseline.op)}});
  };
  advise("do-mend-stream");
  if (seeds) {
    const bool is_program = c.evidence.baseline.manifest().is_of_program();
    const bool is_own = is_program && has_own_generator(c.baseline);
    advise(here != there           ? "do-one-seed"
           : is_own || !is_program ? "do-seed-generator"
                                   : "do-seed-before");
    if (auto alike = seeds_alike_advice(c.evidence); alike && here == there && !is_own) {
      cause.advice = std::move(alike);
    }
  }
  if (c.evidence.baseline.manifest().rng != c.evidence.candidate.manifest().rng) {
    advise("do-one-rng");
  }
  if (c.evidence.rng.parted_in_threads()) advise("do-generator-a-thread");
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
    return Cause(CauseKind::kGeneratorAlgorithm,
                 {Phrase("drew-on-other-devices", {{"baseline", here}, {"candidate", there}})});
  }
  const std::string from = version_of(c.evidence.baseline.manifest());
  const std::string to = version_of(c.evidence.candidate.manifest());
  if (from == to) return std::nullopt;
  return Cause(CauseKind::kGeneratorAlgorithm,
               {Phrase("drew-in-other-releases", {{"baseline", from}, {"candidate", to}})},
               Phrase("do-host-rng"));
}

/// Where the program sets their number itself; null where it does not.
std::optional<Phrase> threads_advice(const Evidence& evidence) {
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram) ||
        group_of(difference) != DifferenceGroup::kThreads) {
      continue;
    }
    Phrase advice = set_apart(difference, evidence);
    advice.key = "do-set-threads-alike";
    return advice;
  }
  return std::nullopt;
}

std::optional<Cause> surroundings(const Case& c, DifferenceGroup group) {
  const std::vector<Suspect>& suspects = c.evidence.suspects;
  if (std::ranges::find(suspects, group, &Suspect::group) == suspects.end()) return std::nullopt;
  Phrases evidence{Phrase(equal_inputs(c)), suspects_phrase(suspects, false)};
  if (group == DifferenceGroup::kThreads) {
    evidence.push_back(Phrase("threads-add-otherwise"));
    Cause cause(CauseKind::kThreads, std::move(evidence));
    cause.advice = threads_advice(c.evidence);
    return cause;
  }
  if (group == DifferenceGroup::kSettings) {
    return Cause(CauseKind::kSettings, std::move(evidence), settings_advice(suspects));
  }
  return Cause(CauseKind::kEnvironment, std::move(evidence));
}

std::uint64_t threads_of(const core::RunManifest& manifest) {
  const std::string* text = core::used_setting(manifest, "threads.intra_op");
  return text == nullptr ? 0 : core::parse_number<std::uint64_t>(*text).value_or(0);
}

std::optional<Cause> nondeterministic_kernel(const Case& c) {
  const Phrase equal(equal_inputs(c));
  const Phrase likely(kLikely);
  if (const auto why = known_nondeterminism(c.baseline)) {
    Cause cause(CauseKind::kNondeterministicKernel,
                {equal,
                 Phrase("known-for", {{"operator", operator_text(c.baseline)}}),
                 Phrase(*why),
                 likely});
    if (!on_accelerator(c.baseline)) cause.advice = Phrase("do-deterministic-or-one-thread");
    return cause;
  }
  const std::uint64_t threads = std::max(threads_of(c.evidence.baseline.manifest()),
                                         threads_of(c.evidence.candidate.manifest()));
  const auto why = differs_between_processes(c.baseline, threads);
  if (!why) return std::nullopt;
  return Cause(
      CauseKind::kNondeterministicKernel,
      {equal,
       Phrase("known-on-threads", {{"operator", operator_text(c.baseline)}, {"threads", threads}}),
       Phrase(*why),
       likely},
      Phrase("do-one-thread"));
}

const core::TensorRecord* moved_tensor(const core::OpRecord& record) {
  const auto moved = std::ranges::find(record.tensors,
                                       core::InputWatch::kMoved,
                                       [](const core::TensorRecord& t) { return t.watch; });
  return moved == record.tensors.end() ? nullptr : &*moved;
}

/// What was imported from elsewhere may have tensors alone.
bool has_arguments(const core::OpRecord& record) {
  return !record.arguments.empty() || std::ranges::none_of(record.tensors, core::is_input);
}

bool has_layout(const core::OpRecord& record) {
  return std::ranges::all_of(record.tensors, [](const core::TensorRecord& tensor) {
    return !core::is_input(tensor) || tensor.shape.empty() || tensor.layout != "strided" ||
           !tensor.strides.empty();
  });
}

/// Whether some output lies where an input does: an operator that works in place, or a view.
bool writes_in_place(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& output) {
    return core::is_output(output) && output.storage >= 0 &&
           output.producer == static_cast<std::int64_t>(record.index) &&
           std::ranges::any_of(record.tensors, [&](const core::TensorRecord& input) {
             return core::is_input(input) && input.storage == output.storage;
           });
  });
}

bool was_watched(const core::OpRecord& record) {
  return std::ranges::all_of(record.tensors, [](const core::TensorRecord& tensor) {
    return !core::is_input(tensor) || tensor.storage < 0 ||
           tensor.state != core::ContentState::kHashed ||
           tensor.watch != core::InputWatch::kNotWatched;
  });
}

/// Of a format with a sign, and a zero of each; null for other dtypes.
const core::FloatLayout* format_of(core::Dtype dtype) {
  const core::FloatLayout& layout = core::row_of(dtype).layout;
  const bool is_known =
      layout.ends == core::FloatEnds::kIeee || layout.ends == core::FloatEnds::kOneNan;
  return is_known ? &layout : nullptr;
}

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

bool flushed(const Sample& sample, const core::FloatLayout& format) {
  const double from = std::abs(number(sample.baseline));
  const double to = std::abs(number(sample.candidate));
  const auto subnormal = [&](double value) { return value > 0 && value < format.min_normal(); };
  return (from == 0 && subnormal(to)) || (to == 0 && subnormal(from));
}

bool overflowed(double from, double to, const core::FloatLayout& format) {
  if (!std::isfinite(from) || std::abs(from) <= format.max_finite() / 2) return false;
  if (std::isinf(to)) return true;
  if (std::isnan(to)) return !format.has_infinity();
  return std::abs(to) == format.max_finite() && std::abs(from) != format.max_finite();
}

std::optional<Cause> uninitialised_cause(const Case& c) {
  if (!may_read_unwritten(c.baseline) && !may_read_unwritten(c.candidate)) return std::nullopt;
  const auto unwritten = describe_unwritten(c.call, c.evidence);
  return Cause(CauseKind::kUninitialised, {unwritten.value_or(Phrase("unwritten-argument"))});
}

std::optional<Cause> flush_cause(const OpFindings& findings) {
  std::uint64_t seen = 0;
  std::uint64_t differing = 0;
  for (const TensorComparison& output : findings.outputs) {
    const core::FloatLayout* format = format_of(output.baseline.dtype);
    if (format == nullptr || !output.metrics || output.samples.empty()) return std::nullopt;
    const bool all = std::ranges::all_of(
        output.samples, [&](const Sample& sample) { return flushed(sample, *format); });
    // Larger than any subnormal: something else differs too.
    if (!all || output.metrics->max_abs.value_or(0) >= format->min_normal()) return std::nullopt;
    seen += output.samples.size();
    differing += output.metrics->n_diff;
  }
  if (seen == 0) return std::nullopt;
  return Cause(CauseKind::kFlushToZero,
               {Phrase("flushed", {{"seen", seen}, {"differing", differing}})});
}

std::optional<Cause> overflow_cause(const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    const core::FloatLayout* format = format_of(output.baseline.dtype);
    if (format == nullptr) continue;
    for (const Sample& sample : output.samples) {
      const double from = number(sample.baseline);
      const double to = number(sample.candidate);
      if (!overflowed(from, to, *format) && !overflowed(to, from, *format)) continue;
      return Cause(CauseKind::kOverflow,
                   {Phrase("overflowed",
                           {{"baseline", sample.baseline},
                            {"candidate", sample.candidate},
                            {"dtype", std::string(core::dtype_name(output.baseline.dtype))}})});
    }
  }
  return std::nullopt;
}

std::optional<Cause> ties_cause(const Case& c) {
  if (!c.baseline.op || !breaks_ties(*c.baseline.op) || c.findings.outputs.empty())
    return std::nullopt;
  // argmax and its like return nothing but indices, the others return them after the values.
  const bool indices_alone = c.baseline.op->name.starts_with("aten::arg");
  const bool only_indices =
      std::ranges::all_of(c.findings.outputs, [&](const TensorComparison& output) {
        return output.baseline.dtype == core::Dtype::kInt64 &&
               (indices_alone || output.baseline.slot != "0");
      });
  if (!only_indices) return std::nullopt;
  return Cause(CauseKind::kTies, {Phrase(indices_alone ? "tied-indices" : "tied-values")});
}

std::optional<Cause> layout_cause(const OpFindings& findings) {
  if (!findings.input_strides_differ) return std::nullopt;
  return Cause(CauseKind::kLayout, {Phrase("layout-differs")});
}

/// What some row of the table looks at.
struct Asked {
  bool is_missing;           ///< one of the two sides does not hold it
  std::string_view what;     ///< that it is
  std::string_view checked;  ///< in the list of what is equal; empty where it does not belong there
};

std::vector<Asked> asked_of(const Case& c) {
  const auto& from = c.evidence.baseline.manifest();
  const auto& to = c.evidence.candidate.manifest();
  const bool is_unmeasured =
      std::ranges::any_of(c.findings.outputs, [](const TensorComparison& output) {
        return output.outcome == TensorOutcome::kBeyond && !output.metrics;
      });
  // What was accepted is what operators gave: all else of its records is the candidate's own.
  const bool is_accepted = c.evidence.report.from_accepted;
  const auto lacks = [&](bool baseline_has, bool candidate_has) {
    return is_accepted || !baseline_has || !candidate_has;
  };
  return {
      {lacks(has_arguments(c.baseline), has_arguments(c.candidate)), "arguments", "arguments"},
      {c.findings.inputs_unknown, "the content of some of its inputs", ""},
      // Where one alone has drawn, that is the cause.
      {draws(c) && (is_accepted || (!c.baseline.generator && !c.candidate.generator)),
       "generator positions",
       draws(c) ? "generator" : ""},
      {is_unmeasured, "values (overflow, flush to zero)", ""},
      {lacks(has_layout(c.baseline), has_layout(c.candidate)), "memory layout", "memory layout"},
      {writes_in_place(c.baseline) && !(was_watched(c.baseline) && was_watched(c.candidate)),
       "whether its value was changed by another thread while in use",
       ""},
      {lacks(!from.settings.empty(), !to.settings.empty()), "settings", "settings"},
      {lacks(!from.environment.empty(), !to.environment.empty()), "environment", "environment"},
      // Platforms, of which one was accepted, tell the number of threads.
      {!is_accepted && (core::used_setting(from, "threads.intra_op") == nullptr ||
                        core::used_setting(to, "threads.intra_op") == nullptr),
       "thread counts",
       is_accepted ? "" : "threads"}};
}

Phrases unexplained(const Case& c, const std::vector<Asked>& asked) {
  const bool is_accepted = c.evidence.report.from_accepted;
  std::vector<std::string> checked;
  if (is_accepted) checked.emplace_back("configuration");
  std::vector<std::string> missing;
  for (const Asked& each : asked) {
    if (each.is_missing) {
      missing.emplace_back(each.what);
    } else if (!each.checked.empty()) {
      checked.emplace_back(each.checked);
    }
  }
  Phrases evidence{Phrase(equal_inputs(c))};
  if (!checked.empty()) {
    evidence.push_back(Phrase("checked-equal", {{"checked", std::move(checked)}}));
  }
  if (!missing.empty()) {
    evidence.push_back(
        Phrase("not-recorded", {{"is_accepted", is_accepted}, {"missing", std::move(missing)}}));
  }
  return evidence;
}

std::optional<Cause> received(const Case& c) {
  if (!core::is_of_ranks(*c.baseline.op)) return std::nullopt;
  return Cause(CauseKind::kReceived, {Phrase("others-gave")});
}

/// Another dtype from inputs of one: the operator promoted otherwise, or was told to.
std::optional<Cause> promotion(const OpFindings& findings) {
  if (!findings.inputs.empty()) return std::nullopt;
  for (const TensorComparison& output : findings.outputs) {
    if (output.outcome != TensorOutcome::kMismatch ||
        output.baseline.dtype == output.candidate.dtype || output.baseline.slot.empty() ||
        output.candidate.slot.empty()) {
      continue;
    }
    Phrases evidence{Phrase("result-note-of-equal-inputs",
                            {{"slot", output.baseline.slot}, {"note", output.note}})};
    for (const ScalarDifference& argument : findings.arguments) {
      evidence.push_back(Phrase("argument-note", {{"argument", argument.text()}}));
    }
    return Cause(CauseKind::kDtypePromotion, std::move(evidence));
  }
  return std::nullopt;
}

/// Whether it may turn a result into one of another dtype, shape or layout, and not only into other
/// numbers.
bool can_change_types(const Difference& difference) {
  constexpr std::string_view kNames =
      "device default_dtype libtorch.version model.digest model.method";
  return is_word_of(kNames, difference.pointer) || difference.pointer.starts_with("autocast.") ||
         difference.pointer == "jit.autocast";
}

Cause shape_mismatch(const OpFindings& findings, const Evidence& evidence) {
  Phrase what("other-number-of-results");
  for (const TensorComparison& output : findings.outputs) {
    if (output.outcome != TensorOutcome::kMismatch) continue;
    what = Phrase(
        "result-note",
        {{"slot", output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot},
         {"note", output.note}});
    break;
  }
  std::vector<std::string> suspected;
  for (const Difference& difference : evidence.report.differences) {
    if (can_change_types(difference)) suspected.push_back(to_text(difference));
  }
  Cause cause(CauseKind::kMismatch, {std::move(what)});
  if (!suspected.empty()) {
    cause.evidence.push_back(Phrase("all-suspects", {{"suspects", std::move(suspected)}}));
  }
  return cause;
}

/// Where an operator returned in one run alone.
std::optional<Cause> raised_cause(const JudgedCall& call, const Evidence& evidence) {
  const bool in_baseline = call.baseline.results.empty();
  if (in_baseline == call.candidate.results.empty()) return std::nullopt;
  const std::string ended = core::raised_text(evidence.dump(in_baseline).manifest());
  Cause cause(CauseKind::kMismatch,
              {Phrase("raised-alone", {{"run", run_field(in_baseline)}})},
              Phrase(core::is_of_ranks(*call.baseline.op) ? "do-look-at-other-ranks"
                                                          : "do-look-at-exception"));
  if (!ended.empty()) cause.evidence.push_back(Phrase("program-ended-by", {{"raised", ended}}));
  return cause;
}

}  // namespace

Cause told_otherwise(const OpFindings& findings) {
  return {CauseKind::kArgument,
          {Phrase("optimizer-told-otherwise", {{"arguments", arguments_of(findings)}})},
          Phrase("do-same-options")};
}

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
  const bool input = core::is_input(tensor);
  return Cause(
      CauseKind::kRace,
      {Phrase("race-while-recorded",
              {{"is_input", input}, {"slot", tensor.slot}, {"where", std::string(where)}})});
}

Attribution attribute_compute(const JudgedCall& call, const Evidence& evidence) {
  const Case c{call, evidence};
  Attribution result;
  Cause& cause = result.cause;
  add_cause(cause, argument_differs(c));
  add_cause(cause, received(c));
  const auto stream = rng_stream(c);
  add_cause(cause, stream);
  if (!stream) add_cause(cause, generator_algorithm(c));
  add_cause(cause, uninitialised_cause(c));
  add_cause(cause, race_cause(moved_tensor(c.baseline), moved_tensor(c.candidate)));
  add_cause(cause, flush_cause(c.findings));
  add_cause(cause, overflow_cause(c.findings));
  add_cause(cause, ties_cause(c));
  add_cause(cause, layout_cause(c.findings));
  add_cause(cause, surroundings(c, DifferenceGroup::kSettings));
  add_cause(cause, surroundings(c, DifferenceGroup::kEnvironment));
  add_cause(cause, surroundings(c, DifferenceGroup::kThreads));
  add_cause(cause, nondeterministic_kernel(c));
  const std::vector<Asked> asked = asked_of(c);
  if (cause.kind == CauseKind::kNone) {
    cause = {CauseKind::kUnexplained, unexplained(c, asked)};
    if (c.baseline.op->name == core::kTensorRecord) {
      cause = {CauseKind::kUnexplained, {Phrase("imported")}, Phrase("do-record-programs")};
      return result;
    }
    if (equal_inputs(c) == kEqualWhenWritten) cause.advice = Phrase("do-verify-inputs");
    if (c.evidence.report.from_accepted) {
      cause.advice = Phrase("do-record-accepted", {{"location", c.evidence.candidate.location()}});
    } else if (core::is_launch(*c.baseline.op)) {
      cause.advice = Phrase("do-look-at-launch");
    } else if (core::environment_fact(c.evidence.candidate.manifest(), core::kFramework) !=
               nullptr) {
      cause.advice = Phrase("do-run-operators");
    }
  }
  for (const Asked& each : asked) {
    if (each.is_missing) cause.not_recorded.emplace_back(each.what);
  }
  if (cause.kind == CauseKind::kRngStream) {
    result.kind = DivergenceKind::kRng;
  } else if (cause.kind == CauseKind::kUninitialised) {
    result.kind = DivergenceKind::kUninitialised;
  }
  return result;
}

Cause mismatch_cause(const JudgedCall& call, const Evidence& evidence) {
  if (auto raised = raised_cause(call, evidence)) return *std::move(raised);
  const OpFindings& findings = call.findings;
  Cause cause;
  add_cause(cause, promotion(findings));
  add_cause(cause, shape_mismatch(findings, evidence));
  return cause;
}

}  // namespace repro_check::comparators
