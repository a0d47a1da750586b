// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "comparators/cause/differences.h"
#include "comparators/cause/known_kernels.h"
#include "comparators/cause/traced_input.h"
#include "comparators/report/report.h"
#include "configs/recorded_run.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/dataflow.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

bool is_dropout(const core::OperatorInfo& op) noexcept {
  return op.name.find("dropout") != std::string::npos;
}

constexpr std::string_view kEqualInputs =
    "its inputs and weights were bit-equal, its output was not";
/// Of digests that are those of what was written, until an operator writes it anew.
constexpr std::string_view kEqualWhenWritten =
    "its inputs and weights were bit-equal when they were written, and not read again; its output "
    "was not";
constexpr std::string_view kKnownInputs =
    "those of its inputs that were recorded were bit-equal, its output was not";

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

std::string_view equal_inputs(const Case& c) {
  if (c.findings.inputs_unknown) return kKnownInputs;
  return reads_inputs_again(c.evidence.baseline.manifest(), c.baseline.index) &&
                 reads_inputs_again(c.evidence.candidate.manifest(), c.candidate.index)
             ? kEqualInputs
             : kEqualWhenWritten;
}

/// Where the model file or the mode in which it runs says what the argument is; empty where the
/// model itself does.
std::string_view argument_advice(const Case& c) {
  if (c.evidence.baseline.manifest().model_digest != c.evidence.candidate.manifest().model_digest) {
    return "two model files were run, and each holds an argument of its own: run one \"model\" in "
           "both, or write the same value into both";
  }
  const auto is_of_mode = [](const ScalarDifference& argument) {
    return is_word_of("train training p dropout dropout_p cudnn_enabled", argument.name);
  };
  if (std::ranges::any_of(c.findings.arguments, is_of_mode)) {
    return "run both in the same \"model\": {\"mode\"}, with the same \"disable_dropout\"";
  }
  return {};
}

/// `random.Random.seed (1) at data.py:3 -> (2) at data.py:3`, of what the program set otherwise in
/// each run.
std::string set_at_text(const Difference& difference, const Evidence& evidence) {
  const std::string name = difference.pointer.substr(core::kSetByProgram.size());
  return fmt::format("{} {} -> {}",
                     name,
                     core::with_place(evidence.baseline.manifest(), name, difference.baseline),
                     core::with_place(evidence.candidate.manifest(), name, difference.candidate));
}

std::string set_apart_text(const Evidence& evidence) {
  std::string text;
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram)) continue;
    text += "; the program called " + set_at_text(difference, evidence);
  }
  return text;
}

/// Variables that the configuration gave the runs otherwise.
std::vector<Suspect> given_variables(const Evidence& evidence) {
  std::vector<Suspect> variables;
  std::ranges::copy_if(evidence.suspects,
                       std::back_inserter(variables),
                       [](const Suspect& suspect) { return suspect.pointer.starts_with("/env/"); });
  return variables;
}

std::string given_apart_text(const Evidence& evidence) {
  const std::vector<Suspect> variables = given_variables(evidence);
  return variables.empty() ? std::string() : "; suspect: " + suspects_text(variables, true);
}

/// `; the candidate alone took from time.time (1 call, first at data.py:7)`, which no seed pins.
std::string taken_alone_text(const Evidence& evidence) {
  std::string text;
  for (const bool of_baseline : {true, false}) {
    const core::RunManifest& own = evidence.dump(of_baseline).manifest();
    const core::RunManifest& other = evidence.dump(!of_baseline).manifest();
    for (const core::EnvironmentFact& fact : own.environment) {
      if (!fact.name.starts_with(core::kUnpinned)) continue;
      if (core::environment_fact(other, fact.name) != nullptr) continue;
      text += fmt::format("; the {} alone took from {} ({}), which no seed pins",
                          of_baseline ? "baseline" : "candidate",
                          fact.name.substr(core::kUnpinned.size()),
                          fact.value);
    }
  }
  return text;
}

bool is_clock(std::string_view function) {
  return function.starts_with("time.") || function.starts_with("datetime.");
}

/// `; what no seed pins it took from os.urandom (2 calls, first at data.py:7)`, in both runs.
/// @param clocks  of clocks, which nearly every program asks for its log; else of all others
std::string unpinned_text(const Evidence& evidence, bool clocks) {
  std::string text;
  for (const core::EnvironmentFact& fact : evidence.baseline.manifest().environment) {
    if (!fact.name.starts_with(core::kUnpinned)) continue;
    const std::string function = fact.name.substr(core::kUnpinned.size());
    const bool is_of_both =
        core::environment_fact(evidence.candidate.manifest(), fact.name) != nullptr;
    if (!is_of_both || is_clock(function) != clocks) continue;
    text += fmt::format("{}{} ({})",
                        text.empty() ? "; what no seed pins it took from " : ", ",
                        function,
                        fact.value);
  }
  return text;
}

/// `; the command lines differ: right -> wrong`, by the words that do.
std::string command_apart_text(const Evidence& evidence) {
  constexpr std::size_t kShown = 4;
  const auto& differences = evidence.report.differences;
  const auto found = std::ranges::find(differences, "program", &Difference::pointer);
  if (found == differences.end()) return {};
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
  return fmt::format("; the command lines differ: {} -> {}",
                     words(found->baseline, found->candidate),
                     words(found->candidate, found->baseline));
}

/// `; /project/train.py was changed between the runs`, of the first files.
std::string changed_sources_text(const Evidence& evidence) {
  constexpr std::size_t kShown = 3;
  std::string text;
  std::size_t changed = 0;
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(kSource) || ++changed > kShown) continue;
    text +=
        fmt::format("{}{}", text.empty() ? "; " : ", ", difference.pointer.substr(kSource.size()));
  }
  if (changed > kShown) text += fmt::format(" and {} more", changed - kShown);
  if (changed > 0)
    text += changed == 1 ? " was changed between the runs" : " were changed between the runs";
  return text;
}

}  // namespace

std::string of_host_text(const Evidence& evidence) {
  // What a checkpoint did not bring back explains a resumed run, and no clock.
  const auto& resume = evidence.report.resume;
  if (resume && resume->leading() != nullptr) return {};
  const std::string suspects = set_apart_text(evidence) + given_apart_text(evidence) +
                               changed_sources_text(evidence) + command_apart_text(evidence) +
                               taken_alone_text(evidence) + unpinned_text(evidence, false);
  return suspects.empty() ? unpinned_text(evidence, true) : suspects;
}

namespace {

/// What to do about what the runs are known to have been told otherwise.
std::optional<std::string> told_advice(const Evidence& evidence) {
  if (!set_apart_text(evidence).empty()) {
    return "give what the program seeds or sets the same value in every run";
  }
  const auto variables = given_variables(evidence);
  return variables.empty() ? std::nullopt : std::optional(settings_advice(variables));
}

std::string host_advice(const Evidence& evidence) {
  return told_advice(evidence).value_or(
      "look at what the program takes it by at this line: the order of a set or of a folder, a "
      "clock, an address, threads that end as they come, or another value of the host");
}

std::string arguments_of(const OpFindings& findings) {
  std::vector<std::string> texts;
  for (const ScalarDifference& argument : findings.arguments) texts.push_back(argument.text());
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::optional<Cause> argument_differs(const Case& c) {
  if (c.findings.arguments.empty()) return std::nullopt;
  Cause cause(CauseKind::kArgument,
              fmt::format("it was called with other arguments: {}", arguments_of(c.findings)));
  if (c.evidence.baseline.manifest().is_of_program()) {
    cause.evidence += of_host_text(c.evidence);
    cause.advice = told_advice(c.evidence)
                       .value_or(
                           "look at what it is computed from at this line: a schedule, a "
                           "count of steps, a clock, or another value of the host");
  }
  if (const std::string_view advice = argument_advice(c); !advice.empty()) cause.advice = advice;
  name_told(c.evidence, cause);
  return cause;
}

bool draws(const Case& c) {
  return c.baseline.op->seeded || c.candidate.op->seeded || c.baseline.generator ||
         c.candidate.generator;
}

std::optional<Cause> rng_stream(const Case& c) {
  if (!draws(c)) return std::nullopt;
  const auto elsewhere = c.evidence.rng.stood_elsewhere(c.call);
  if (!elsewhere.value_or(false)) return std::nullopt;
  std::string parting = c.evidence.rng.parting();
  const std::uint64_t here = c.evidence.baseline.manifest().seed;
  const std::uint64_t there = c.evidence.candidate.manifest().seed;
  bool seeds = c.evidence.rng.started_apart();
  if (parting.empty() && here != there) {
    seeds = true;
    parting = fmt::format("the generators started apart (seed {} against {})", here, there);
  }
  if (parting.empty()) parting = "its generator stood at another place";
  parting += set_apart_text(c.evidence);
  Cause cause(CauseKind::kRngStream,
              fmt::format("it draws random numbers, its inputs were bit-equal, and {}", parting));
  if (seeds) {
    const bool is_program = c.evidence.baseline.manifest().is_of_program();
    cause.advice = here != there ? "set one \"seed\" for both runs"
                   : is_program  ? "seed that generator before this line, as torch.manual_seed(0) "
                                   "does, or have repro-check seed all of them: --seed 0"
                                 : "give that generator the same seed in every run";
  }
  if (c.evidence.baseline.manifest().rng != c.evidence.candidate.manifest().rng) {
    cause.advice = "give both runs one \"rng\", \"device\" or \"host\"";
  }
  if (c.evidence.rng.parted_in_threads()) {
    cause.advice =
        "give each thread a generator of its own (torch.Generator), or draw before they start";
  }
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
  const std::string from = version_of(c.evidence.baseline.manifest());
  const std::string to = version_of(c.evidence.candidate.manifest());
  if (from == to) return std::nullopt;
  return Cause(CauseKind::kGeneratorAlgorithm,
               fmt::format("it drew from one place of the stream, in LibTorch {} and {}, which may "
                           "turn the same draws into other numbers",
                           from,
                           to),
               "set \"rng\": \"host\", or take one LibTorch for both runs");
}

/// Where the program sets their number itself; empty where it does not.
std::string threads_advice(const Evidence& evidence) {
  for (const Difference& difference : evidence.report.differences) {
    if (!difference.pointer.starts_with(core::kSetByProgram) ||
        group_of(difference) != DifferenceGroup::kThreads) {
      continue;
    }
    return "let the program set it alike in both runs: " + set_at_text(difference, evidence);
  }
  return {};
}

std::optional<Cause> surroundings(const Case& c, DifferenceGroup group) {
  const std::vector<Suspect>& suspects = c.evidence.suspects;
  if (std::ranges::find(suspects, group, &Suspect::group) == suspects.end()) return std::nullopt;
  const std::string evidence =
      fmt::format("{}; suspect: {}", equal_inputs(c), suspects_text(suspects));
  if (group == DifferenceGroup::kThreads) {
    Cause cause(CauseKind::kThreads,
                evidence + "; work split among other threads adds in another order");
    if (auto advice = threads_advice(c.evidence); !advice.empty()) cause.advice = std::move(advice);
    return cause;
  }
  if (group == DifferenceGroup::kSettings) {
    return Cause(CauseKind::kSettings, evidence, settings_advice(suspects));
  }
  return Cause(CauseKind::kEnvironment, evidence);
}

std::uint64_t threads_of(const core::RunManifest& manifest) {
  const std::string* text = core::used_setting(manifest, "threads.intra_op");
  return text == nullptr ? 0 : core::parse_number<std::uint64_t>(*text).value_or(0);
}

Cause likely_kernel(std::string known) {
  Cause cause(CauseKind::kNondeterministicKernel, known + " (likely)");
  cause.known = std::move(known);
  return cause;
}

std::optional<Cause> nondeterministic_kernel(const Case& c) {
  if (const auto why = known_nondeterminism(c.baseline)) {
    Cause cause = likely_kernel(fmt::format(
        "{}; {} is known for it: {}", equal_inputs(c), operator_text(c.baseline), *why));
    if (!on_accelerator(c.baseline)) cause.advice += ", or \"threads\": 1";
    return cause;
  }
  const std::uint64_t threads = std::max(threads_of(c.evidence.baseline.manifest()),
                                         threads_of(c.evidence.candidate.manifest()));
  const auto why = differs_between_processes(c.baseline, threads);
  if (!why) return std::nullopt;
  Cause cause = likely_kernel(fmt::format("{}; of {} on {} threads it is known that {}",
                                          equal_inputs(c),
                                          operator_text(c.baseline),
                                          threads,
                                          *why));
  cause.advice = "set \"threads\": 1";
  return cause;
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
  std::string what = describe_unwritten(c.call, c.evidence);
  if (what.empty()) what = "an argument is memory that no operator has written in whole";
  return Cause(CauseKind::kUninitialised, std::move(what));
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
               fmt::format("{} of {} differing elements were looked at: each is 0 on one side and "
                           "below the smallest normal number on the other",
                           seen,
                           differing));
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
                   fmt::format("{} became {}: overflow of {}",
                               sample.baseline,
                               sample.candidate,
                               core::dtype_name(output.baseline.dtype)));
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

std::string unexplained_text(const Case& c, const std::vector<Asked>& asked) {
  const bool is_accepted = c.evidence.report.from_accepted;
  std::vector<std::string_view> checked;
  if (is_accepted) checked.emplace_back("configuration");
  std::vector<std::string_view> missing;
  for (const Asked& each : asked) {
    if (each.is_missing) {
      missing.push_back(each.what);
    } else if (!each.checked.empty()) {
      checked.push_back(each.checked);
    }
  }
  std::string evidence(equal_inputs(c));
  if (!checked.empty())
    evidence += fmt::format("; checked and equal: {}", fmt::join(checked, ", "));
  if (missing.empty()) return evidence;
  return evidence + fmt::format("; {}: {}",
                                is_accepted ? "not in a baseline" : "not recorded",
                                fmt::join(missing, ", "));
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
  return Cause(CauseKind::kRace,
               fmt::format("another thread or stream wrote its {} {} after it was digested and "
                           "before {}, in {}: what was {} is not what was compared",
                           input ? "input" : "output",
                           tensor.slot,
                           input ? "the operator ran" : "it was stored",
                           where,
                           input ? "read" : "computed"));
}

std::optional<Cause> received(const Case& c) {
  if (!core::is_of_ranks(*c.baseline.op)) return std::nullopt;
  return Cause(CauseKind::kReceived,
               "what this rank put in is equal in both runs, and what came back is not");
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
    cause = {CauseKind::kUnexplained, unexplained_text(c, asked)};
    if (equal_inputs(c) == kEqualWhenWritten) {
      cause.advice =
          "record both with --verify-inputs (\"dump\": {\"verify_inputs\": true}), which reads "
          "each "
          "input again: something may have written it past all operators, through a pointer";
    }
    if (c.evidence.report.from_accepted) {
      cause.advice = fmt::format(
          "`repro-check record` the model that was accepted, and `repro-check diff` that dump with "
          "{}; a gate with /baselines/store does so itself",
          c.evidence.candidate.location());
    } else if (core::is_launch(*c.baseline.op)) {
      cause.advice =
          "look at what the kernel does in no fixed order: atomics add as its programs arrive";
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
  constexpr std::string_view kNames =
      "device default_dtype libtorch.version model.digest model.method";
  return is_word_of(kNames, difference.pointer) || difference.pointer.starts_with("autocast.") ||
         difference.pointer == "jit.autocast";
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
  for (const Difference& difference : evidence.report.differences) {
    if (can_change_types(difference)) suspected.push_back(to_text(difference));
  }
  if (!suspected.empty()) what += fmt::format("; suspect: {}", fmt::join(suspected, ", "));
  return {CauseKind::kMismatch, what};
}

/// Where an operator returned in one run alone.
std::optional<Cause> raised_cause(const JudgedCall& call, const Evidence& evidence) {
  const bool in_baseline = call.baseline.results.empty();
  if (in_baseline == call.candidate.results.empty()) return std::nullopt;
  const std::string ended = core::raised_text(evidence.dump(in_baseline).manifest());
  return Cause(CauseKind::kMismatch,
               fmt::format("it raised in the {}, and returned nothing there{}",
                           in_baseline ? "baseline" : "candidate",
                           ended.empty() ? "" : "; the program was ended by " + ended),
               core::is_of_ranks(*call.baseline.op)
                   ? "look at what ended the other ranks: who waits for one that is gone raises"
                   : "look at the exception, in what the program printed");
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

/// `, 1 of 4096 elements, max 1 ULP`, from whatever measured the tensor.
std::string measured_size(const TracedInput& input, const Evidence& evidence) {
  for (const NamedTensorDifference& named : evidence.report.named_tensors) {
    if (named.name != input.name) continue;
    if (named.metrics) return ", " + extent_text(*named.metrics);
    return named.note.empty() ? std::string() : ", " + named.note;
  }
  const std::vector<Sample>& samples = input.comparison->samples;
  if (core::element_count(either(*input.comparison).shape) == 1 && samples.size() == 1) {
    return fmt::format(", {} -> {}", samples.front().baseline, samples.front().candidate);
  }
  if (input.comparison->metrics) return ", " + extent_text(*input.comparison->metrics);
  const std::string& note = input.comparison->note;
  return note.empty() ? note : ", " + note;
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
  return Cause(CauseKind::kUninitialised,
               evidence.baseline_writes.describe_unwritten(tensor) +
                   ": nobody has written the rest, or the program did with no operator",
               "fill it whole before it is read (torch.zeros in place of torch.empty), or look for "
               "what fills it past the dispatcher");
}

std::string unobserved_text(const TracedInput& input) {
  if (input.changed.empty() || !input.producer) {
    return fmt::format(
        "{} was written by op {}, whose outputs are equal: something changed the value without "
        "being recorded, or it was written without being returned",
        argument_text(input),
        input.producer.value_or(0));
  }
  return fmt::format(
      "{} is not what op {} returned, {}: something changed the value in between without being "
      "recorded",
      argument_text(input),
      *input.producer,
      input.changed);
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
            fmt::format("where the baseline reads state `{}`, the candidate reads what is no "
                        "parameter or buffer of its model{}",
                        input.name,
                        measured_size(input, evidence))};
  }
  const std::string* here = only_holder(evidence.baseline.manifest(), tensor.candidate);
  const std::string* there = only_holder(evidence.candidate.manifest(), tensor.baseline);
  if (here == nullptr && there == nullptr) {
    Cause cause(CauseKind::kWeights,
                fmt::format("the runs had different models: state `{}` differs{}",
                            input.name,
                            measured_size(input, evidence)));
    if (evidence.report.from_accepted) {
      cause.advice =
          "accept the run if the weights were meant to change: `repro-check gate accept`; else "
          "load the checkpoint that was accepted";
    }
    return cause;
  }
  const bool of_candidate = here != nullptr;
  const std::string_view moved = of_candidate ? own : std::string_view(*there);
  return {
      CauseKind::kWeights,
      fmt::format("the runs had different models: the candidate's `{}` is the baseline's `{}`: "
                  "layers were removed, inserted or exchanged",
                  moved,
                  of_candidate ? *here : input.name),
      "compare the model files: what differs is which layers there are, and not what they hold"};
}

Cause cast_cause(const TracedInput& input, const Evidence& evidence) {
  return {CauseKind::kDtypePromotion,
          fmt::format("the runs have another dtype, {}: `{}` was cast before the first operator, "
                      "{} against {}",
                      evidence.cast_apart,
                      input.name,
                      core::dtype_name(input.comparison->baseline.dtype),
                      core::dtype_name(input.comparison->candidate.dtype)),
          "give both runs one \"dtype\"; or compare across dtypes: \"compare\": {\"dtype\": "
          "\"promote\", \"policy\": \"tolerance\"}, or hold both against a run in float64 "
          "(policy \"fp64\")"};
}

std::string given_text(const TracedInput& input, const Evidence& evidence) {
  const core::OpRecord head = evidence.baseline.op_head(*input.producer);
  return fmt::format(
      "{} was given by {}, which was not waited for: it is recorded where it is read",
      argument_text(input),
      op_text(head));
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

/// `what op 3 aten::mm made in the baseline, and what op 5 aten::mm made in the candidate`
std::string two_makers_text(const TensorComparison& tensor, const Evidence& evidence) {
  const auto maker = [](const core::DumpSource& dump, const core::TensorRecord& given) {
    const core::OpRecord head = dump.op_head(static_cast<std::uint64_t>(given.producer));
    const bool is_main = head.lane == core::kMainLane;
    return op_text(head) + (is_main ? "" : " of lane " + core::lane_text(head.lane));
  };
  return fmt::format("what {} made in the baseline, and what {} made in the candidate",
                     maker(evidence.baseline, tensor.baseline),
                     maker(evidence.candidate, tensor.candidate));
}

/// `result 0 of op 3 aten::split in the baseline, and result 1 in the candidate`
std::string two_results_text(const TensorComparison& tensor, const Evidence& evidence) {
  const auto slot = [](const core::OpRecord& maker, const core::TensorRecord& given) {
    const core::TensorRecord* made = core::written_output(maker, given);
    return made == nullptr ? std::string() : made->slot;
  };
  const core::OpRecord maker =
      evidence.baseline.op(static_cast<std::uint64_t>(tensor.baseline.producer));
  const core::OpRecord other =
      evidence.candidate.op(static_cast<std::uint64_t>(tensor.candidate.producer));
  std::string here = "result " + slot(maker, tensor.baseline);
  std::string there = "result " + slot(other, tensor.candidate);
  if (here == there) {
    here = fmt::format("what begins at element {}", tensor.baseline.storage_offset);
    there = fmt::format("what begins at element {}", tensor.candidate.storage_offset);
  }
  return fmt::format(
      "{} of {} in the baseline, and {} in the candidate", here, op_text(maker), there);
}

Cause other_tensor_cause(const TracedInput& input,
                         const OpFindings& findings,
                         const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string made =
      input.is_of_one ? two_results_text(tensor, evidence) : two_makers_text(tensor, evidence);
  return {CauseKind::kArgument,
          fmt::format("it was given {}: {} is {}; both runs made both alike{}",
                      is_reordered(findings.inputs) ? "the same tensors in another order"
                                                    : "another tensor",
                      argument_text(input),
                      made,
                      of_host_text(evidence)),
          host_advice(evidence)};
}

std::string handed_advice(const Evidence& evidence) {
  const std::vector<Suspect> variables = given_variables(evidence);
  return variables.empty() ? "compare what the two runs hand to the operator at this line"
                           : settings_advice(variables);
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
          fmt::format("it was given {} more in the {}: {}{}",
                      counted(static_cast<std::uint64_t>(more), "tensor"),
                      is_new ? "candidate" : "baseline",
                      argument_text(input),
                      of_host_text(evidence)),
          handed_advice(evidence)};
}

Cause propagated_cause(const TracedInput& input, const Evidence& evidence) {
  if (!input.producer) {
    return {CauseKind::kPropagated,
            fmt::format("{} was made by an operator of the candidate only", argument_text(input))};
  }
  const std::uint32_t root = evidence.root_of.at(*input.producer);
  const bool chain = root != kUnmatched && root != *input.producer;
  const std::uint64_t look = chain ? root : *input.producer;
  std::string what = fmt::format("{} comes from op {}", argument_text(input), *input.producer);
  if (chain) what += fmt::format(", and the difference from op {}", look);
  return {CauseKind::kPropagated, std::move(what), fmt::format("look at op {}", look)};
}

/// Of what Python hands to an operator.
std::string made_by_program_text(const core::TensorRecord& tensor, const core::DumpSource& dump) {
  if (tensor.producer >= 0) {
    const core::OpRecord maker = dump.op_head(static_cast<std::uint64_t>(tensor.producer));
    if (core::hands_out_memory(core::base_name(maker.op->name))) {
      // Memory that nobody has written has no contents.
      return fmt::format(
          ", and no recorded operator wrote it since {} made room for it: {} did{}",
          op_text(maker),
          dump.manifest().is_of_program() ? "the program" : "the model",
          tensor.state == core::ContentState::kHashed ? "" : ", or nobody has written it");
    }
  }
  return ", and no recorded operator made it: the program did";
}

/// Of a parameter or buffer of a program, in memory that nobody has written.
std::optional<Cause> unwritten_state_cause(const TracedInput& input, const Evidence& evidence) {
  const core::TensorRecord& tensor = input.comparison->baseline;
  if (!evidence.baseline_writes.is_unwritten_state(tensor)) return std::nullopt;
  return Cause(CauseKind::kUninitialised,
               fmt::format("{}: it is state `{}` of the model",
                           evidence.baseline_writes.describe_unwritten(tensor),
                           core::named_source(tensor.name).name),
               "compute or load it behind to_empty() or torch.empty(): a checkpoint does not hold "
               "buffers that are not persistent");
}

Cause amplified_cause(const TracedInput& input,
                      const OpFindings& findings,
                      const Evidence& evidence) {
  std::string what = fmt::format(
      "{} differs since op {} and passed the policy there", argument_text(input), *input.producer);
  const double passed = evidence.passed_error.at(*input.producer);
  if (passed > 0) {
    what += fmt::format("; this operator made the relative L2 error {:.3g} times as great",
                        findings.severity / passed);
  }
  return {CauseKind::kAmplified,
          std::move(what),
          fmt::format("look at op {}, or allow more at this operator", *input.producer)};
}

Cause made_by_program(const TracedInput& input, const Evidence& evidence) {
  if (auto unwritten = unwritten_state_cause(input, evidence)) return *unwritten;
  return {CauseKind::kConstant,
          argument_text(input) + " differs" + measured_size(input, evidence) +
              made_by_program_text(input.comparison->baseline, evidence.baseline) +
              of_host_text(evidence),
          handed_advice(evidence)};
}

Cause cause_of(const TracedInput& input, const OpFindings& findings, const Evidence& evidence) {
  const TensorComparison& tensor = *input.comparison;
  const std::string argument = argument_text(input);
  switch (input.origin) {
    case CauseKind::kRace:
      return {CauseKind::kRace,
              fmt::format("{} was last written by {} in the baseline and by {} in the candidate, "
                          "and nothing keeps these lanes in order",
                          argument,
                          writer_text(evidence.baseline, tensor.baseline.producer),
                          writer_text(evidence.candidate, tensor.candidate.producer)),
              "wait for the other fork before the tensor is written or read, or give each a "
              "clone()"};
    case CauseKind::kInputData:
      return {CauseKind::kInputData,
              fmt::format("the model was given other data: input `{}` differs before the first "
                          "operator{}",
                          input.name,
                          measured_size(input, evidence))};
    case CauseKind::kWeights:
      return weights_cause(input, evidence);
    case CauseKind::kDtypePromotion:
      return cast_cause(input, evidence);
    case CauseKind::kReceived:
      return {CauseKind::kReceived, given_text(input, evidence)};
    case CauseKind::kArgument:
      return is_given_alone(tensor) ? given_alone_cause(input, findings, evidence)
                                    : other_tensor_cause(input, findings, evidence);
    case CauseKind::kUninitialised:
      return {CauseKind::kUninitialised,
              evidence.baseline_writes.describe_unwritten(tensor.baseline)};
    case CauseKind::kUnobservedWrite:
      if (auto race = race_cause(&tensor.baseline, &tensor.candidate)) return *race;
      if (auto unwritten = partly_written_cause(input, evidence)) return *unwritten;
      return {CauseKind::kUnobservedWrite, unobserved_text(input)};
    case CauseKind::kPropagated:
      return propagated_cause(input, evidence);
    case CauseKind::kAmplified:
      return amplified_cause(input, findings, evidence);
    default:
      if (evidence.baseline.manifest().is_of_program()) return made_by_program(input, evidence);
      if (tensor.baseline.producer >= 0) {
        return {CauseKind::kConstant,
                argument + " differs" + measured_size(input, evidence) +
                    made_by_program_text(tensor.baseline, evidence.baseline),
                "compare the numbers that the model is given, and those that it holds: "
                "torch.tensor([...]) is made of them with no operator"};
      }
      return {CauseKind::kConstant,
              argument +
                  " is a constant of the graph that differs; a traced random value may be "
                  "baked in"};
  }
}

Attribution inherited_from(std::uint64_t op, std::string what) {
  return {Relation::kPropagated,
          DivergenceKind::kOrigin,
          {op},
          {CauseKind::kPropagated, std::move(what), fmt::format("look at op {}", op)}};
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
    static constexpr std::string_view kMaxNorm = "max_norm";
    const auto norm_in = [](const core::OpRecord& record) {
      const core::Value* value = core::find_argument(record, kMaxNorm);
      return value == nullptr ? std::nullopt : core::number_in(record, *value);
    };
    const auto from = norm_in(evidence.baseline.op(op));
    const auto to = norm_in(evidence.candidate.op(*there));
    if (!from || !to || *from == *to) break;
    return Cause(CauseKind::kArgument,
                 fmt::format("gradients are clipped by another norm: {} {} -> {}",
                             kMaxNorm,
                             core::to_text({*from}),
                             core::to_text({*to})),
                 fmt::format("give both runs the same {}", kMaxNorm));
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
                          fmt::format("argument `{}` is what op {} returned: {} against {}",
                                      argument.name,
                                      found->second,
                                      argument.baseline,
                                      argument.candidate));
  }
  return std::nullopt;
}

}  // namespace

std::string describe_unwritten(const JudgedCall& call, const Evidence& evidence) {
  const core::TensorRecord* tensor = unwritten_argument(call.baseline);
  if (tensor != nullptr) return evidence.baseline_writes.describe_unwritten(*tensor);
  tensor = unwritten_argument(call.candidate);
  if (tensor != nullptr) return evidence.candidate_writes.describe_unwritten(*tensor);
  if (!evidence.baseline.manifest().is_of_program()) return {};
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
  return {};
}

void Evidence::see_gradients(const JudgedCall& call) {
  if (!gradients_apart.empty()) return;
  const auto& here = call.baseline.tensors;
  const auto& there = call.candidate.tensors;
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].requires_grad == there[i].requires_grad || !core::is_input(here[i]) ||
        here[i].slot != there[i].slot) {
      continue;
    }
    gradients_apart = fmt::format("gradients are asked of `{}` at {} in the {} alone",
                                  here[i].slot,
                                  op_text(call.baseline),
                                  here[i].requires_grad ? "baseline" : "candidate");
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
  const auto changes = mode_changes(evidence.baseline.manifest(), evidence.candidate.manifest());
  if (changes.empty()) return;
  lead_with({CauseKind::kMode,
             fmt::format("the model ran in another mode: {}", fmt::join(changes, ", "))},
            cause);
}

void name_told(const Evidence& evidence, Cause& cause) {
  if (evidence.told.empty()) return;
  const bool beside_data = !evidence.report.named_tensors.empty();
  cause.evidence += "; suspect: " + suspects_text(evidence.told, beside_data);
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
                 fmt::format("{} ran in another mode: {} was called with {}: {} against {}",
                             module.empty() ? "it" : fmt::format("module `{}`", module),
                             operator_text(baseline),
                             name,
                             core::to_text({*from}),
                             core::to_text({*to})),
                 "look where the two runs call train() and eval() before this line");
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
    return inherited_from(*op, fmt::format("the order of the samples parts at op {}", *op));
  }
  const core::Value* sampler = core::find_argument(order, core::kSampler);
  Attribution result;
  const auto size = [](const core::OpRecord& of) {
    return core::list_argument<std::int64_t>(of, core::kOrderSamples).size();
  };
  if (size(order) != size(call.candidate)) {
    result.cause = {CauseKind::kConstant,
                    fmt::format("the loader that is made at this line takes batches of {} samples "
                                "against {}{}",
                                size(order),
                                size(call.candidate),
                                of_host_text(evidence)),
                    "give both runs one batch size and one dataset"};
    return result;
  }
  result.cause = {CauseKind::kConstant,
                  fmt::format("the loader that is made at this line takes other samples, as its "
                              "sampler ({}) says, and no recorded operator drew them: the program "
                              "ordered them{}",
                              sampler == nullptr ? "unknown" : core::to_text(*sampler),
                              of_host_text(evidence)),
                  "order them by something that repeats: what a set holds or a folder lists comes "
                  "in any order unless it is sorted, and what shuffles needs a seed"};
  return result;
}

/// A batch that a worker has made: what it did for it stands between its order and the batch.
std::optional<Attribution> from_worker(std::uint64_t order,
                                       std::uint64_t batch,
                                       const Evidence& evidence) {
  const auto first = std::ranges::lower_bound(evidence.of_workers, order);
  if (first == evidence.of_workers.end() || *first > batch) return std::nullopt;
  return inherited_from(*first,
                        fmt::format("a worker made it, whose op {} gave something else", *first));
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
  return inherited_from(order, fmt::format("it is given other samples: op {}", order));
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
/// batches and what its optimizers left: `gradients were equal, what the optimizer keeps parts
/// first: exp_avg of ...`.
std::string parting_of_step(const OpFindings& findings) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kParts{
      {{core::kGradientPrefix, "the gradient of `{}` parts first"},
       {"state.", "gradients were equal, and what the optimizer keeps parts first: `{}`"},
       {core::kParameterPrefix,
        "gradients and what the optimizer keeps were equal, and `{}` parts first"}}};
  for (const auto& [prefix, text] : kParts) {
    if (const std::string* slot = first_slot_below(prefix, findings)) {
      return fmt::format(fmt::runtime(text), slot->substr(prefix.size()));
    }
  }
  return "what the program made parts here";
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
Attribution from_step(const JudgedCall& call, std::string_view said, std::string more) {
  const OpFindings& findings = call.findings;
  const bool gradients = first_slot_below(core::kGradientPrefix, findings) != nullptr;
  Attribution result;
  if (call.baseline.op->name == core::kStepRecord && !gradients && !findings.arguments.empty()) {
    result.cause = {
        CauseKind::kArgument,
        fmt::format("gradients were equal, and the optimizer was told other numbers: {}",
                    arguments_of(findings)),
        "give the optimizers of both the same options"};
  } else {
    result.cause = {CauseKind::kUnobservedWrite,
                    fmt::format("{}{}", said, parting_of_step(findings)),
                    std::move(more)};
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
      fmt::format(
          "`{}` comes from op {}", first.baseline.slot.substr(core::kParameterPrefix.size()), op));
}

std::optional<Attribution> from_unrecorded_step(const JudgedCall& call, const Evidence& evidence) {
  if (!core::is_named_values(call.baseline)) return std::nullopt;
  if (auto by_parameter = from_parameter(call, evidence)) return by_parameter;
  const core::TraceSummary& trace = evidence.baseline.manifest().trace;
  if (trace.optimizer == core::kOptimizerState && is_of_recorded_step(call, evidence)) {
    return from_step(call,
                     "of the optimizer's operators only what they left was read: ",
                     "read each of them: --optimizer operators, or dump.optimizer");
  }
  if (trace.only.empty()) return std::nullopt;
  for (std::uint64_t op = call.baseline.index; op-- > 0;) {
    if (evidence.outcomes.at(op) != OpOutcome::kDiverged) continue;
    return inherited_from(op,
                          fmt::format("op {}, before it, diverged, and what lies between was not "
                                      "recorded",
                                      op));
  }
  return from_step(
      call,
      "operators of this part were not recorded: ",
      fmt::format("record the step as well: --steps {}, or dump.steps", call.baseline.step));
}

}  // namespace

Attribution attribute(const JudgedCall& call, const Evidence& evidence) {
  const OpFindings& findings = call.findings;
  Attribution result;
  const std::uint32_t child = evidence.divergent_child.at(call.baseline.index);
  if (child != kUnmatched) {
    // On whose account nothing inside it is at fault.
    result = inherited_from(child, fmt::format("op {}, which it calls, diverged", child));
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
