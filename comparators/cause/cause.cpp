// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string_view>

#include "comparators/cause/known_kernels.h"
#include "comparators/cause/traced_input.h"
#include "configs/recorded_run.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/dataflow.h"
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

/// `random.Random.seed (1) at data.py:3 -> (2) at data.py:3`, of what the program set otherwise in
/// each run.
Phrase set_apart(const Difference& difference, const Evidence& evidence) {
  const std::string name = difference.pointer.substr(core::kSetByProgram.size());
  return Phrase(
      "program-set",
      {{"function", name},
       {"baseline", core::with_place(evidence.baseline.manifest(), name, difference.baseline)},
       {"candidate", core::with_place(evidence.candidate.manifest(), name, difference.candidate)}});
}

constexpr std::string_view kSeedAlike = "do-seed-alike";

Phrases all_set_apart(const Evidence& evidence) {
  Phrases phrases;
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram)) continue;
    phrases.push_back(set_apart(difference, evidence));
  }
  return phrases;
}

/// Variables that the configuration gave the runs otherwise.
std::vector<Suspect> given_variables(const Evidence& evidence) {
  std::vector<Suspect> variables;
  std::ranges::copy_if(evidence.suspects,
                       std::back_inserter(variables),
                       [](const Suspect& suspect) { return suspect.pointer.starts_with("/env/"); });
  return variables;
}

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

namespace {

Phrases followed_by(Phrase first, Phrases others) {
  others.insert(others.begin(), std::move(first));
  return others;
}

/// What to do about what the runs are known to have been told otherwise.
std::optional<Phrase> told_advice(const Evidence& evidence) {
  if (Phrases apart = all_set_apart(evidence); !apart.empty()) {
    apart.front().key = kSeedAlike;
    return std::move(apart.front());
  }
  const auto variables = given_variables(evidence);
  return variables.empty() ? std::nullopt : std::optional(settings_advice(variables));
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

std::vector<std::string> arguments_of(const OpFindings& findings) {
  std::vector<std::string> texts;
  for (const ScalarDifference& argument : findings.arguments) texts.push_back(argument.text());
  return texts;
}

/// Of a step of an optimizer, whose arguments are its learning rates and options.
Cause told_otherwise(const OpFindings& findings) {
  return {CauseKind::kArgument,
          {Phrase("optimizer-told-otherwise", {{"arguments", arguments_of(findings)}})},
          Phrase("do-same-options")};
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

/// What gives PyTorch's generators a seed.
constexpr std::array<std::string_view, 3> kSeeders{
    "torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"};

/// Whether neither repro-check nor a line of the program gave PyTorch's generators a seed.
bool is_unseeded(const core::RunManifest& manifest) {
  return manifest.is_of_program() && !core::given_seed(manifest) &&
         std::ranges::none_of(kSeeders, [&](std::string_view function) {
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
    if (std::ranges::find(kSeeders, name) == kSeeders.end()) continue;
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

/// First row that holds is the cause, later ones hold as well.
void add_cause(Cause& cause, std::optional<Cause> found) {
  if (!found) return;
  if (cause.kind == CauseKind::kNone) {
    cause = std::move(*found);
  } else {
    cause.also.push_back(std::move(*found));
  }
}

/// Where one of these, an input or output of an operator, was written by somebody else while it was
/// recorded. Either may be null.
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

std::optional<Cause> received(const Case& c) {
  if (!core::is_of_ranks(*c.baseline.op)) return std::nullopt;
  return Cause(CauseKind::kReceived, {Phrase("others-gave")});
}

/// The cause when every tensor input was bit-equal.
Attribution attribute_compute(const Case& c) {
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
    if (equal_inputs(c) == kEqualWhenWritten) cause.advice = Phrase("do-verify-inputs");
    if (c.evidence.report.from_accepted) {
      cause.advice = Phrase("do-record-accepted", {{"location", c.evidence.candidate.location()}});
    } else if (core::is_launch(*c.baseline.op)) {
      cause.advice = Phrase("do-look-at-launch");
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

/// Results of another dtype, shape, layout or number from equal inputs.
Cause mismatch_cause(const JudgedCall& call, const Evidence& evidence) {
  if (auto raised = raised_cause(call, evidence)) return *std::move(raised);
  const OpFindings& findings = call.findings;
  Cause cause;
  add_cause(cause, promotion(findings));
  add_cause(cause, shape_mismatch(findings, evidence));
  return cause;
}

const TracedInput* first_of(const std::vector<TracedInput>& inputs, CauseKind origin) {
  const auto found = std::ranges::find(inputs, origin, &TracedInput::origin);
  return found == inputs.end() ? nullptr : &*found;
}

std::string argument_text(const TracedInput& input) {
  return fmt::format("argument `{}`", either(*input.comparison).slot);
}

/// `1 -> 2`, of tensors that hold one number; empty of others, and where it is not known.
Phrases two_numbers(const TracedInput& input) {
  const std::vector<Sample>& samples = input.comparison->samples;
  if (core::element_count(either(*input.comparison).shape) != 1 || samples.size() != 1) return {};
  return {
      Phrase("two-numbers",
             {{"baseline", samples.front().baseline}, {"candidate", samples.front().candidate}})};
}

/// `1 of 4096 elements, max 1 ULP`, from whatever measured the tensor; empty where nothing did.
Phrases measured_size(const TracedInput& input, const Evidence& evidence) {
  for (const NamedTensorDifference& named : evidence.report.named_tensors) {
    if (named.name != input.name) continue;
    return named.metrics ? Phrases{extent_of(*named.metrics)} : named.note;
  }
  if (Phrases numbers = two_numbers(input); !numbers.empty()) return numbers;
  if (input.comparison->metrics) return {extent_of(*input.comparison->metrics)};
  // That it differs is said beside it.
  const Phrases& note = input.comparison->note;
  return note == Phrases{Phrase(kValuesDiffer)} ? Phrases() : note;
}

std::string writer_text(const core::DumpSource& dump, std::int64_t writer) {
  if (writer < 0) return "nobody";
  const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(writer));
  return fmt::format("{} of lane {}", op_text(head), core::lane_text(head.lane));
}

/// Of memory that operators have written in part alone, where it differs and they wrote alike.
std::optional<Cause> partly_written_cause(const TracedInput& input, const Evidence& evidence) {
  const core::TensorRecord& tensor = input.comparison->baseline;
  if (!evidence.baseline_writes.is_written_in_part(tensor)) return std::nullopt;
  Phrases what = evidence.baseline_writes.unwritten(tensor);
  what.push_back(Phrase("rest-unwritten"));
  return Cause(CauseKind::kUninitialised, std::move(what), Phrase("do-fill-whole"));
}

Cause unobserved(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kUnobservedWrite,
            {Phrase("written-unseen", {{"argument", argument_text(input)}})}};
  }
  const core::OpRecord writer = evidence.baseline.op_head(*input.producer);
  Cause cause(CauseKind::kUnobservedWrite,
              {Phrase(input.changed.empty() ? "written-unseen" : "changed-unseen",
                      {{"argument", argument_text(input)},
                       {"op", op_text(writer)},
                       {"where", std::string(input.changed)}})});
  if (const auto line = core::line_text(writer.site.get()); !line.empty()) {
    cause.advice = Phrase("do-look-between", {{"line", line}});
  }
  return cause;
}

/// The name of the only parameter or buffer of a run that holds what `tensor` does; null where
/// there is none, or several do.
const std::string* only_holder(const core::RunManifest& manifest,
                               const core::TensorRecord& tensor) {
  const std::string* name = nullptr;
  for (const core::NamedTensor& named : manifest.named_tensors) {
    if (named.kind == core::NamedTensorKind::kInput || named.digest != tensor.digest ||
        named.dtype != tensor.dtype || named.shape != tensor.shape) {
      continue;
    }
    if (name != nullptr) return nullptr;
    name = &named.name;
  }
  return name;
}

Cause weights_cause(const TracedInput& input, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string_view own = core::named_source(tensor.candidate.name).name;
  if (own.empty()) {
    return {CauseKind::kWeights,
            {Phrase("no-state-of-candidate",
                    {{"name", input.name}, {"size", measured_size(input, evidence)}})}};
  }
  const std::string* here = only_holder(evidence.baseline.manifest(), tensor.candidate);
  const std::string* there = only_holder(evidence.candidate.manifest(), tensor.baseline);
  if (here == nullptr && there == nullptr) {
    Cause cause(CauseKind::kWeights,
                {Phrase("state-differs",
                        {{"name", input.name}, {"size", measured_size(input, evidence)}})});
    if (evidence.report.from_accepted) cause.advice = Phrase("do-accept-weights");
    return cause;
  }
  const bool of_candidate = here != nullptr;
  const std::string_view moved = of_candidate ? own : std::string_view(*there);
  return {CauseKind::kWeights,
          {Phrase("state-moved",
                  {{"moved", std::string(moved)}, {"name", of_candidate ? *here : input.name}})},
          Phrase("do-compare-layers")};
}

Cause cast_cause(const TracedInput& input, const Evidence& evidence) {
  return {
      CauseKind::kDtypePromotion,
      {Phrase("cast-apart",
              {{"change", evidence.cast_apart},
               {"name", input.name},
               {"baseline", std::string(core::dtype_name(input.comparison->baseline.dtype))},
               {"candidate", std::string(core::dtype_name(input.comparison->candidate.dtype))}})},
      Phrase("do-one-dtype")};
}

Phrase given_later(const TracedInput& input, const Evidence& evidence) {
  const core::OpRecord head = evidence.baseline.op_head(*input.producer);
  return Phrase("given-unwaited", {{"argument", argument_text(input)}, {"op", op_text(head)}});
}

/// Whether the differing inputs are known to be the same tensors, in another order.
bool is_reordered(const std::vector<TensorComparison>& inputs) {
  std::vector<core::Digest> here;
  std::vector<core::Digest> there;
  for (const TensorComparison& input : inputs) {
    if (input.baseline.state != core::ContentState::kHashed ||
        input.candidate.state != core::ContentState::kHashed) {
      return false;
    }
    here.push_back(input.baseline.digest);
    there.push_back(input.candidate.digest);
  }
  std::ranges::sort(here);
  std::ranges::sort(there);
  return here == there;
}

/// What made the tensor that each run was given.
void put_two_makers(const TensorComparison& tensor, const Evidence& evidence, Phrase& phrase) {
  const auto maker = [](const core::DumpSource& dump, const core::TensorRecord& given) {
    const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(given.producer));
    const bool is_main = head.lane == core::kMainLane;
    return op_text(head) + (is_main ? "" : " of lane " + core::lane_text(head.lane));
  };
  phrase.with("maker", maker(evidence.baseline, tensor.baseline))
      .with("other_maker", maker(evidence.candidate, tensor.candidate));
}

/// Which result, or part of one, of an operator each run was given.
void put_two_results(const TensorComparison& tensor, const Evidence& evidence, Phrase& phrase) {
  const auto slot = [](const core::OpRecord& maker, const core::TensorRecord& given) {
    const core::TensorRecord* made = core::written_output(maker, given);
    return made == nullptr ? std::string() : made->slot;
  };
  const core::OpRecord maker =
      evidence.baseline.op(static_cast<std::uint64_t>(tensor.baseline.producer));
  const core::OpRecord other =
      evidence.candidate.op(static_cast<std::uint64_t>(tensor.candidate.producer));
  const std::string here = slot(maker, tensor.baseline);
  const std::string there = slot(other, tensor.candidate);
  phrase.with("op", op_text(maker));
  if (here != there) {
    phrase.with("result", here).with("other_result", there);
  } else {
    phrase.with("offset", tensor.baseline.storage_offset)
        .with("other_offset", tensor.candidate.storage_offset);
  }
}

Cause other_tensor_cause(const TracedInput& input,
                         const OpFindings& findings,
                         const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  Phrase given(
      "given-other-tensor",
      {{"is_reordered", is_reordered(findings.inputs)}, {"argument", argument_text(input)}});
  if (input.is_of_one) {
    put_two_results(tensor, evidence, given);
  } else {
    put_two_makers(tensor, evidence, given);
  }
  return {CauseKind::kArgument,
          followed_by(std::move(given), of_host(evidence)),
          host_advice(evidence)};
}

Phrase handed_advice(const Evidence& evidence) {
  const std::vector<Suspect> variables = given_variables(evidence);
  if (!variables.empty()) return settings_advice(variables);
  return unpinned_advice(evidence).value_or(Phrase("do-compare-handed"));
}

/// Of lists of other lengths, or an argument that may be left out.
Cause given_alone_cause(const TracedInput& input,
                        const OpFindings& findings,
                        const Evidence& evidence) {
  const bool is_new = input.comparison->baseline.slot.empty();
  const auto more = std::ranges::count_if(findings.inputs, [&](const TensorComparison& other) {
    return is_given_alone(other) && other.baseline.slot.empty() == is_new;
  });
  return {CauseKind::kArgument,
          followed_by(Phrase("given-more",
                             {{"more", static_cast<std::uint64_t>(more)},
                              {"run", run_field(!is_new)},
                              {"argument", argument_text(input)}}),
                      of_host(evidence)),
          handed_advice(evidence)};
}

Phrase look_at(std::uint64_t op) { return Phrase("do-look-at-op", {{"op", op}}); }

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kPropagated,
            {Phrase("made-by-candidate-only", {{"argument", argument_text(input)}})}};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  Phrase comes("comes-from", {{"argument", argument_text(input)}, {"op", *input.producer}});
  if (chain) comes.with("origin", root);
  return {CauseKind::kPropagated, {std::move(comes)}, look_at(chain ? root : *input.producer)};
}

/// Of what Python hands to an operator.
Phrase made_unseen(const core::TensorRecord& tensor, const core::DumpSource& dump) {
  if (tensor.producer >= 0) {
    const core::OpRecord maker = dump.op_head(static_cast<std::uint64_t>(tensor.producer));
    if (core::hands_out_memory(core::base_name(maker.op->name))) {
      // Memory that nobody has written has no contents.
      return Phrase("no-operator-wrote",
                    {{"op", op_text(maker)},
                     {"is_program", dump.manifest().is_of_program()},
                     {"maybe_nobody", tensor.state != core::ContentState::kHashed}});
    }
  }
  return Phrase("no-operator-made");
}

/// Of a parameter or buffer of a program, in memory that nobody has written.
std::optional<Cause> unwritten_state_cause(const TracedInput& input, const Evidence& evidence) {
  const core::TensorRecord& tensor = input.comparison->baseline;
  if (!evidence.baseline_writes.is_unwritten_state(tensor)) return std::nullopt;
  Phrases what = evidence.baseline_writes.unwritten(tensor);
  what.push_back(Phrase("is-state", {{"name", std::string(core::named_source(tensor.name).name)}}));
  return Cause(CauseKind::kUninitialised, std::move(what), Phrase("do-fill-state"));
}

Cause amplified_cause(const TracedInput& input,
                      const OpFindings& findings,
                      const Evidence& evidence) {
  const std::uint64_t op = *input.producer;
  Phrases what{Phrase("passed-there", {{"argument", argument_text(input)}, {"op", op}})};
  const double passed = evidence.passed_error.at(*input.producer);
  if (passed > 0) {
    what.push_back(Phrase("made-error-greater", {{"factor", findings.severity / passed}}));
  }
  return {CauseKind::kAmplified, std::move(what), Phrase("do-look-at-op-or-allow", {{"op", op}})};
}

Phrases differs_unseen(const TracedInput& input, const Evidence& evidence) {
  Phrase differs("argument-differs",
                 {{"argument", argument_text(input)}, {"size", measured_size(input, evidence)}});
  const Phrases numbers = two_numbers(input);
  if (!numbers.empty() && evidence.baseline.manifest().is_of_program()) {
    differs.with("numbers", numbers);
  }
  return {std::move(differs), made_unseen(input.comparison->baseline, evidence.baseline)};
}

Cause made_by_program(const TracedInput& input, const Evidence& evidence) {
  if (auto unwritten = unwritten_state_cause(input, evidence)) return *unwritten;
  Phrases what = differs_unseen(input, evidence);
  append(of_host(evidence), what);
  return {CauseKind::kConstant, std::move(what), handed_advice(evidence)};
}

Cause cause_of(const TracedInput& input, const OpFindings& findings, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string argument = argument_text(input);
  switch (input.origin) {
    case CauseKind::kRace:
      return {CauseKind::kRace,
              {Phrase("last-written-apart",
                      {{"argument", argument},
                       {"baseline", writer_text(evidence.baseline, tensor.baseline.producer)},
                       {"candidate", writer_text(evidence.candidate, tensor.candidate.producer)}})},
              Phrase("do-wait-for-fork")};
    case CauseKind::kInputData:
      return {CauseKind::kInputData,
              {Phrase("other-input",
                      {{"name", input.name}, {"size", measured_size(input, evidence)}})}};
    case CauseKind::kWeights:
      return weights_cause(input, evidence);
    case CauseKind::kDtypePromotion:
      return cast_cause(input, evidence);
    case CauseKind::kReceived:
      return {CauseKind::kReceived, {given_later(input, evidence)}};
    case CauseKind::kArgument:
      return is_given_alone(tensor) ? given_alone_cause(input, findings, evidence)
                                    : other_tensor_cause(input, findings, evidence);
    case CauseKind::kUninitialised:
      return {CauseKind::kUninitialised, evidence.baseline_writes.unwritten(tensor.baseline)};
    case CauseKind::kUnobservedWrite:
      if (auto race = race_cause(&tensor.baseline, &tensor.candidate)) return *race;
      if (auto unwritten = partly_written_cause(input, evidence)) return *unwritten;
      return unobserved(input, evidence);
    case CauseKind::kPropagated:
      return propagated_cause(input, evidence);
    case CauseKind::kAmplified:
      return amplified_cause(input, findings, evidence);
    default:
      if (evidence.baseline.manifest().is_of_program()) return made_by_program(input, evidence);
      if (tensor.baseline.producer >= 0) {
        return {
            CauseKind::kConstant, differs_unseen(input, evidence), Phrase("do-compare-numbers")};
      }
      return {CauseKind::kConstant, {Phrase("constant-of-graph", {{"argument", argument}})}};
  }
}

Attribution inherited_from(std::uint64_t op, Phrase what) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {op},
          {CauseKind::kPropagated, {std::move(what)}, look_at(op)}};
}

Attribution inherited_from(std::uint64_t op, std::string_view key) {
  return inherited_from(op, Phrase(key, {{"op", op}}));
}

std::vector<std::uint64_t> producers_of(const std::vector<TracedInput>& inputs, CauseKind origin) {
  std::vector<std::uint64_t> producers;
  for (const TracedInput& input : inputs) {
    if (input.origin == origin && input.producer) producers.push_back(*input.producer);
  }
  std::ranges::sort(producers);
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  return producers;
}

/// Rows 5 to 9, each by the first input for which it holds.
Cause input_causes(const std::vector<TracedInput>& inputs,
                   const OpFindings& findings,
                   const Evidence& evidence) {
  Cause cause;
  const bool inherits = first_of(inputs, CauseKind::kPropagated) != nullptr;
  for (const CauseKind origin : {CauseKind::kRace,
                                 CauseKind::kDtypePromotion,
                                 CauseKind::kInputData,
                                 CauseKind::kWeights,
                                 CauseKind::kReceived,
                                 CauseKind::kConstant,
                                 CauseKind::kUninitialised,
                                 CauseKind::kUnobservedWrite,
                                 CauseKind::kArgument,
                                 inherits ? CauseKind::kPropagated : CauseKind::kAmplified}) {
    const TracedInput* input = first_of(inputs, origin);
    if (input != nullptr) add_cause(cause, cause_of(*input, findings, evidence));
  }
  return cause;
}

/// What clips gradients tells by what norm, behind the operators of the same line that do it.
std::optional<Cause> clipped_otherwise(const core::OpHead& reader, const Evidence& evidence) {
  const std::string line = core::line_text(reader.site.get());
  if (line.empty()) return std::nullopt;
  for (std::uint64_t op = reader.index; op < evidence.baseline.op_count(); ++op) {
    const core::OpRecord head = evidence.baseline.op_head(op);
    if (head.step != reader.step) break;
    if (head.lane != reader.lane) continue;
    if (core::line_text(head.site.get()) != line) break;
    if (head.op->name != core::kClipRecord) continue;
    const auto there = counterpart_in(evidence.pairing.candidate_of, static_cast<std::int64_t>(op));
    if (!there) break;
    const auto norm_in = [](const core::OpRecord& record) {
      const core::Value* value = core::find_argument(record, core::kClippedMaxNorm);
      return value == nullptr ? std::nullopt : core::number_in(record, *value);
    };
    const auto from = norm_in(evidence.baseline.op(op));
    const auto to = norm_in(evidence.candidate.op(*there));
    if (!from || !to || *from == *to) break;
    const std::string name(core::kClippedMaxNorm);
    return Cause(CauseKind::kArgument,
                 {Phrase("clipped-otherwise",
                         {{"name", name},
                          {"baseline", core::to_text({*from})},
                          {"candidate", core::to_text({*to})}})},
                 Phrase("do-same-value", {{"name", name}}));
  }
  return std::nullopt;
}

/// A differing tensor input decides, whatever else differs. Rows 5 to 9.
std::optional<Attribution> from_inputs(const OpFindings& findings,
                                       const core::OpHead& reader,
                                       const Evidence& evidence) {
  if (findings.inputs.empty()) return std::nullopt;
  std::vector<TracedInput> inputs;
  for (const TensorComparison& input : findings.inputs) {
    inputs.push_back(trace_input(input, reader, evidence));
  }
  Attribution result;
  result.cause = input_causes(inputs, findings, evidence);
  if (result.cause.kind == CauseKind::kConstant) {
    if (auto clip = clipped_otherwise(reader, evidence)) lead_with(std::move(*clip), result.cause);
  }
  if (first_of(inputs, CauseKind::kRace) != nullptr) return result;
  const bool divergent = first_of(inputs, CauseKind::kPropagated) != nullptr;
  if (divergent || first_of(inputs, CauseKind::kAmplified) != nullptr) {
    result.relation = Relation::kPropagated;
    result.producers =
        producers_of(inputs, divergent ? CauseKind::kPropagated : CauseKind::kAmplified);
  } else if (first_of(inputs, CauseKind::kInputData) != nullptr) {
    result.kind = DivergenceKind::kInputs;
  } else if (first_of(inputs, CauseKind::kWeights) != nullptr) {
    result.kind = DivergenceKind::kWeights;
  } else if (result.cause.kind == CauseKind::kUninitialised) {
    result.kind = DivergenceKind::kUninitialised;
  }
  return result;
}

/// A number that an earlier operator returned, differing, comes back as an argument.
std::optional<Attribution> from_scalars(const JudgedCall& call, const Evidence& evidence) {
  for (const ScalarDifference& argument : call.findings.arguments) {
    const auto found = evidence.scalar_results.find({argument.baseline, argument.candidate});
    if (found == evidence.scalar_results.end()) continue;
    if (found->second == call.baseline.index) continue;  // named values are both at once
    return inherited_from(found->second,
                          Phrase("argument-returned",
                                 {{"name", argument.name},
                                  {"op", found->second},
                                  {"baseline", argument.baseline},
                                  {"candidate", argument.candidate}}));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Phrase> describe_unwritten(const JudgedCall& call, const Evidence& evidence) {
  const core::TensorRecord* tensor = unwritten_argument(call.baseline);
  if (tensor != nullptr) return evidence.baseline_writes.describe_unwritten(*tensor);
  tensor = unwritten_argument(call.candidate);
  if (tensor != nullptr) return evidence.candidate_writes.describe_unwritten(*tensor);
  if (!evidence.baseline.manifest().is_of_program()) return std::nullopt;
  for (const bool of_baseline : {true, false}) {
    const core::OpRecord& record = of_baseline ? call.baseline : call.candidate;
    const WriteHistory& writes = of_baseline ? evidence.baseline_writes : evidence.candidate_writes;
    for (const core::TensorRecord& input : record.tensors) {
      if (core::is_input(input) && core::reads_values(*record.op, input.slot) &&
          writes.is_unwritten_state(input)) {
        return writes.describe_unwritten(input);
      }
    }
  }
  return std::nullopt;
}

void Evidence::see_gradients(const JudgedCall& call) {
  if (gradients_apart) return;
  const auto& here = call.baseline.tensors;
  const auto& there = call.candidate.tensors;
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].requires_grad == there[i].requires_grad || !core::is_input(here[i]) ||
        here[i].slot != there[i].slot) {
      continue;
    }
    gradients_apart = Phrase("gradients-asked-alone",
                             {{"slot", here[i].slot},
                              {"op", op_text(call.baseline)},
                              {"run", run_field(here[i].requires_grad)}});
    return;
  }
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

std::optional<Cause> mode_of_module(const core::OpRecord& baseline,
                                    const core::OpRecord& candidate,
                                    const Evidence& evidence) {
  if (!evidence.baseline.manifest().is_of_program()) return std::nullopt;
  for (const std::string_view name : {"training", "train"}) {
    const auto* from = core::argument_as<bool>(baseline, name);
    const auto* to = core::argument_as<bool>(candidate, name);
    if (from == nullptr || to == nullptr || *from == *to) continue;
    const std::string_view module = module_of(baseline);
    return Cause(CauseKind::kMode,
                 {Phrase("mode-of-module",
                         {{"module", std::string(module)},
                          {"operator", operator_text(baseline)},
                          {"name", std::string(name)},
                          {"baseline", core::to_text({*from})},
                          {"candidate", core::to_text({*to})}})},
                 Phrase("do-look-train-eval"));
  }
  return std::nullopt;
}

namespace {

/// Records of named values stand between calls, and the draws of what orders samples right before.
constexpr std::uint64_t kLookedBack = 64;

/// Which samples a loader takes: what drew them right before, or the first batch of another order.
std::optional<std::uint64_t> before_order(std::uint64_t order, const Evidence& evidence) {
  for (std::uint64_t op = order; op-- > 0 && order - op < kLookedBack;) {
    const core::OpRecord record = evidence.baseline.op(op);
    if (core::is_named_values(record)) break;
    if (record.generator && evidence.outcomes.at(op) == OpOutcome::kDiverged) return op;
  }
  const auto differs = [&](std::uint64_t op) {
    return op < order && evidence.outcomes.at(op) == OpOutcome::kDiverged;
  };
  const auto first = std::ranges::find_if(evidence.orders, differs);
  return first == evidence.orders.end() ? std::nullopt : std::optional(*first);
}

Attribution from_order(const JudgedCall& call, const Evidence& evidence) {
  const core::OpRecord& order = call.baseline;
  if (const auto op = before_order(order.index, evidence)) {
    return inherited_from(*op, "order-parts");
  }
  Attribution result;
  const auto size = [](const core::OpRecord& of) {
    return core::list_argument<std::int64_t>(of, core::kOrderSamples).size();
  };
  if (size(order) != size(call.candidate)) {
    result.cause = {
        CauseKind::kConstant,
        followed_by(Phrase("other-batch-sizes",
                           {{"baseline", size(order)}, {"candidate", size(call.candidate)}}),
                    of_host(evidence)),
        Phrase("do-one-batch-size")};
    return result;
  }
  result.cause = {
      CauseKind::kConstant,
      followed_by(
          Phrase("ordered-by-program",
                 {{"sampler", core::argument_or<std::string>(order, core::kSampler, "unknown")}}),
          of_host(evidence)),
      Phrase("do-order-samples")};
  return result;
}

/// A batch that a worker has made: what it did for it stands between its order and the batch.
std::optional<Attribution> from_worker(std::uint64_t order,
                                       std::uint64_t batch,
                                       const Evidence& evidence) {
  const auto first = std::ranges::lower_bound(evidence.of_workers, order);
  if (first == evidence.of_workers.end() || *first > batch) return std::nullopt;
  return inherited_from(*first, "worker-made");
}

/// What a loader does for a batch of other samples: nothing there is to blame.
std::optional<Attribution> from_data(const JudgedCall& call, const Evidence& evidence) {
  if (call.baseline.phase != core::Phase::kData) return std::nullopt;
  if (call.baseline.op && call.baseline.op->name == core::kOrderRecord) {
    return from_order(call, evidence);
  }
  const auto next = std::ranges::upper_bound(evidence.orders, call.baseline.index);
  if (next == evidence.orders.begin()) return std::nullopt;
  const std::uint64_t order = *std::prev(next);
  if (evidence.outcomes.at(order) != OpOutcome::kDiverged) {
    const bool is_batch = call.baseline.op && call.baseline.op->name == core::kBatchRecord;
    return is_batch ? from_worker(order, call.baseline.index, evidence) : std::nullopt;
  }
  return inherited_from(order, "given-other-samples");
}

/// The name of the first output that differs and begins like this; null where there is none.
const std::string* first_slot_below(std::string_view prefix, const OpFindings& findings) {
  for (const TensorComparison& output : findings.outputs) {
    const std::string& slot = either(output).slot;
    if (slot.starts_with(prefix)) return &slot;
  }
  return nullptr;
}

/// Of a part of a program that was not recorded, or not read, there are only its losses, its
/// batches and what its optimizers left: which of these parts first.
Phrase parting_of_step(const OpFindings& findings) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kParts{
      {{core::kGradientPrefix, "gradient-parts"},
       {core::kStatePrefix, "state-parts"},
       {core::kParameterPrefix, "parameter-parts"}}};
  for (const auto& [prefix, key] : kParts) {
    if (const std::string* slot = first_slot_below(prefix, findings)) {
      return Phrase(key, {{"name", slot->substr(prefix.size())}});
    }
  }
  return Phrase("program-parts");
}

/// Whether this is what a step left of which other operators, at least, were recorded.
bool is_of_recorded_step(const JudgedCall& call, const Evidence& evidence) {
  const core::OpRecord& record = call.baseline;
  if (record.op->name != core::kStepRecord) return false;
  if (evidence.baseline.manifest().trace.only.empty()) return true;
  for (std::uint64_t op = record.index; op-- > 0;) {
    const core::OpHead before = evidence.baseline.op_head(op);
    if (before.lane != record.lane) continue;
    if (before.step != record.step) return false;
    if (!core::is_named_values(before)) return true;
  }
  return false;
}

/// Of a step whose operators tell nothing: `said` of them, and what `more` of them would take.
/// Nothing before it diverged, or its inputs would be said to.
Attribution from_step(const JudgedCall& call, std::string_view said, Phrase more) {
  const OpFindings& findings = call.findings;
  const bool gradients = first_slot_below(core::kGradientPrefix, findings) != nullptr;
  Attribution result;
  if (call.baseline.op->name == core::kStepRecord && !gradients && !findings.arguments.empty()) {
    result.cause = told_otherwise(findings);
  } else {
    result.cause = {
        CauseKind::kUnobservedWrite, {Phrase(said), parting_of_step(findings)}, std::move(more)};
  }
  return result;
}

/// Of a step that was given and told the same, and works on parameters that all differed before.
std::optional<Attribution> from_parameter(const JudgedCall& call, const Evidence& evidence) {
  const OpFindings& findings = call.findings;
  if (call.baseline.op->name != core::kStepRecord || !findings.arguments.empty())
    return std::nullopt;
  if (findings.outputs.empty()) return std::nullopt;
  const auto writer_of = [&](const TensorComparison& output) {
    return evidence.baseline_writes.differing_writer(output.baseline);
  };
  for (const TensorComparison& output : findings.outputs) {
    if (!output.baseline.slot.starts_with(core::kParameterPrefix) || writer_of(output) < 0 ||
        std::cmp_greater_equal(writer_of(output), call.baseline.index)) {
      return std::nullopt;
    }
  }
  const TensorComparison& first = findings.outputs.front();
  const auto op = static_cast<std::uint64_t>(writer_of(first));
  return inherited_from(
      op,
      Phrase("parameter-comes-from",
             {{"name", first.baseline.slot.substr(core::kParameterPrefix.size())}, {"op", op}}));
}

std::optional<Attribution> from_unrecorded_step(const JudgedCall& call, const Evidence& evidence) {
  if (!core::is_named_values(call.baseline)) return std::nullopt;
  if (auto by_parameter = from_parameter(call, evidence)) return by_parameter;
  const core::TraceSummary& trace = evidence.baseline.manifest().trace;
  if (trace.optimizer == core::kOptimizerState && is_of_recorded_step(call, evidence)) {
    return from_step(call, "optimizer-not-read", Phrase("do-read-optimizer"));
  }
  if (trace.only.empty()) return std::nullopt;
  for (std::uint64_t op = call.baseline.index; op-- > 0;) {
    if (evidence.outcomes.at(op) == OpOutcome::kDiverged) {
      return inherited_from(op, "behind-unrecorded");
    }
  }
  return from_step(
      call, "part-not-recorded", Phrase("do-record-step", {{"step", call.baseline.step}}));
}

}  // namespace

Attribution attribute(const JudgedCall& call, const Evidence& evidence) {
  const OpFindings& findings = call.findings;
  Attribution result;
  const std::uint32_t child = evidence.divergent_child.at(call.baseline.index);
  if (child != kUnmatched) {
    // On whose account nothing inside it is at fault.
    result = inherited_from(child, "child-diverged");
  } else if (auto by_inputs = from_inputs(findings, call.baseline, evidence)) {
    result = std::move(*by_inputs);
    if (result.relation == Relation::kOrigin) {
      if (auto by_step = from_unrecorded_step(call, evidence)) result = std::move(*by_step);
    }
  } else if (auto by_scalars = from_scalars(call, evidence)) {
    result = std::move(*by_scalars);
  } else {
    result = attribute_compute({call, evidence});
  }
  if (result.relation == Relation::kOrigin) {
    if (auto by_data = from_data(call, evidence)) result = std::move(*by_data);
  }
  const bool mismatched = findings.outcome == OpOutcome::kMismatched;
  if (mismatched && result.relation == Relation::kOrigin &&
      result.kind == DivergenceKind::kOrigin && findings.inputs.empty()) {
    result.cause = mismatch_cause(call, evidence);
  }
  if (result.relation == Relation::kOrigin) {
    const CauseKind kind = result.cause.kind;
    if (kind == CauseKind::kArgument || kind == CauseKind::kConstant ||
        kind == CauseKind::kOutsideOperators || kind == CauseKind::kUnobservedWrite) {
      lead_with_host_generator(evidence, call.baseline.index, true, result.cause);
    }
    lead_with_mode(evidence, result.cause);
    if (auto mode = mode_of_module(call.baseline, call.candidate, evidence)) {
      lead_with(std::move(*mode), result.cause);
    }
  }
  if (!mismatched) return result;
  result.relation = Relation::kMismatch;
  result.kind = DivergenceKind::kMismatch;
  return result;
}

}  // namespace repro_check::comparators
