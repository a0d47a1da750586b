// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/report_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/numbers_words.h"
#include "comparators/measure/records.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using comparators::CauseKind;
using comparators::Sample;
using comparators::TensorOutcome;

std::string count_text(const comparators::TensorMetrics& metrics, bool judged_by_policy) {
  const bool is_partly_within = judged_by_policy && metrics.n_beyond < metrics.n_diff;
  return fmt::format("{} of {}{}",
                     format_count(is_partly_within ? metrics.n_beyond : metrics.n_diff),
                     format_count(metrics.elements, "element"),
                     is_partly_within ? " beyond tolerance" : "");
}

// NaN payloads and zeros of unlike sign can read the same, and then only their bits tell them
// apart.
std::string side_text(const Sample& sample, const std::string& text, const std::string& bits) {
  const bool is_ambiguous = sample.baseline == sample.candidate && !bits.empty();
  const std::string prefix = bits.starts_with("0x") ? "" : "0x";
  return escape_name(is_ambiguous ? fmt::format("{} {}{}", text, prefix, bits) : text);
}

std::string size_text(const comparators::TensorMetrics& m) {
  if (m.ulp_max.value_or(0) > 0) return fmt::format("max {} ULP", format_ulp(*m.ulp_max));
  if (m.max_abs_exact.value_or(0) > 0) return fmt::format("max absolute {}", *m.max_abs_exact);
  return m.max_abs.value_or(0) > 0 ? "max absolute " + format_error(*m.max_abs) : "";
}

// How far the relative tolerance would have to go, beside the absolute one of the policy.
std::string needed_text(const comparators::TensorComparison& tensor) {
  const comparators::TensorMetrics& m = *tensor.metrics;
  const bool is_asked = tensor.outcome == TensorOutcome::kBeyond &&
                        tensor.policy_kind == configs::PolicyKind::kTolerance;
  if (!is_asked || !m.rtol_given_atol || !comparators::describe_metrics(m).empty()) return {};
  if (std::isfinite(*m.rtol_given_atol)) return fmt::format("needs rtol {}", *m.rtol_given_atol);
  return m.zero_baseline == 0
             ? ""
             : fmt::format("relative inf (zero baseline {})", format_count(m.zero_baseline));
}

/// Of TensorOutcome: what is beyond the policy says most.
int weight(TensorOutcome outcome) noexcept {
  constexpr std::array kWeights{0, 1, 4, 3, 2, 0};
  return kWeights.at(static_cast<std::size_t>(outcome));
}

std::string values_text(const comparators::ReturnedValues& returned) {
  const auto counted = [](std::uint64_t count, std::string_view noun) {
    return count == 0 ? std::string() : format_count(count, noun);
  };
  return joined({counted(returned.tensors, "tensor"), counted(returned.others, "other value")},
                ", ");
}

// Where no operator was compared, what the model returns is all there is.
void put_returned_pass(Line& line, const comparators::ReturnedValues& returned) {
  const std::string values = values_text(returned);
  const std::string but = returned.opaque.empty()
                              ? ""
                              : fmt::format(", but for {}{} whose type alone was compared,",
                                            returned.opaque.front(),
                                            returned.opaque.size() > 1 ? " and others" : "");
  line.put(fmt::format(": what the model returns{} is {}{}; no operator was compared",
                       but,
                       returned.within_policy > 0 ? "within policy" : "bit-identical",
                       values.empty() ? "" : ", " + values));
}

/// ` with seed 0 set by repro-check`, of programs: the pass rests on it. Empty where they ran as
/// they are.
std::string set_seed_text(const Report& report) {
  std::vector<std::uint64_t> seeds;
  for (const RunSummary& run : report.runs) {
    if (!run.manifest.is_of_program()) continue;
    const auto seed = core::given_seed(run.manifest);
    if (seed && std::ranges::find(seeds, *seed) == seeds.end()) seeds.push_back(*seed);
  }
  if (seeds.empty()) return {};
  return fmt::format(
      " with seed{} {} set by repro-check", seeds.size() == 1 ? "" : "s", fmt::join(seeds, ", "));
}

/// ` at the borders of 18 blocks, 400 steps: outputs, losses, parameters`: all that such a pass
/// speaks of.
std::string borders_pass_text(const Report& report) {
  const comparators::BlockComparison& blocks = *report.blocks;
  const std::string what = joined({blocks.compared > 0 ? "outputs" : "",
                                   blocks.losses > 0 ? "losses" : "",
                                   blocks.parameters > 0 ? "parameters" : "",
                                   blocks.exchanges > 0 ? "collectives" : "",
                                   report.returned.compared > 0 ? "results" : ""},
                                  ", ");
  if (blocks.compared == 0) return " but for blocks, none of which was called: " + what;
  return fmt::format(" at the borders of {}, {}: {}",
                     format_count(blocks.blocks, "block"),
                     format_count(blocks.steps, "step"),
                     what);
}

void put_pass(Line& line, const Report& report) {
  const auto& c = report.coverage;
  const std::string seed = set_seed_text(report);
  // What an expected divergence hides stays in the sum.
  const std::string of = format_count(c.compared + c.not_judged, "operator");
  if (report.numbers) {
    line.put(fmt::format(" numbers{}: {}", seed, numbers_pass_text(report)));
  } else if (report.blocks) {
    line.put(seed + borders_pass_text(report));
  } else if (c.compared == 0 && report.returned.compared > 0) {
    line.put(seed);
    put_returned_pass(line, report.returned);
  } else if (c.within_policy > 0) {
    using configs::PolicyKind;
    const bool by_element =
        report.policy_kind == PolicyKind::kTolerance || report.policy_kind == PolicyKind::kBitwise;
    line.put(fmt::format(" within policy{}: {} of {} bit-identical, {} within {}",
                         seed,
                         format_count(c.equal),
                         of,
                         format_count(c.within_policy),
                         by_element ? "tolerance" : "policy"));
    if (report.screened.beyond > 0) {
      line.put(fmt::format("; {} of {} beyond tolerance",
                           format_count(report.screened.beyond),
                           format_count(report.screened.elements, "element")));
    }
  } else {
    line.put(fmt::format("{}: {} of {} bit-identical", seed, format_count(c.equal), of));
  }
  if (c.not_judged > 0) line.put(fmt::format(", {} not judged", format_count(c.not_judged)));
  if (report.repeat) {
    line.put(fmt::format(" ({})", format_count(report.repeat->runs.size(), "run")));
  } else if (!report.runs.empty()) {
    std::vector<std::string_view> names;
    for (const auto& run : report.runs) names.push_back(run.name);
    line.put(fmt::format(" ({})", fmt::join(names, ", ")));
  }
}

// Of N runs the line is about two; how many there are like the second.
void put_repeats(Line& line, const comparators::RepeatSummary& repeat) {
  if (repeat.differing == 0) return;
  line.put(fmt::format("; {} of {} runs differ from {}",
                       format_count(repeat.differing),
                       format_count(repeat.judged),
                       repeat.runs.front().name));
}

void put_relation(Line& line, Relation relation) {
  line.put(", ").put(word_of(relation), relation_role(relation));
}

/// The one that a report on several is about; null where their records stand in one dump.
const std::string* rank_of_several(const Report& report) {
  if (report.ranks.size() < 2 || report.runs.empty()) return nullptr;
  return core::environment_fact(report.runs.front().manifest, core::kRank);
}

/// `at step 12, backward, ` of a program, `at step 12 of rank 1, backward, ` of one of several
/// ranks, `at step 12, data, worker 0, ` in one that loads data; the same of an import; empty of a
/// model.
std::string when_text(const Report& report, const OpDivergence& op) {
  if (report.runs.empty()) return {};
  const core::RunManifest& manifest = report.runs.front().manifest;
  if (!manifest.is_of_program() && core::environment_fact(manifest, core::kImportFormat) == nullptr)
    return {};
  const core::OpRecord& record = shown_record(op);
  const std::string* rank = rank_of_several(report);
  // A call of another framework may be a forward and a backward pass in one.
  if (core::environment_fact(manifest, core::kFramework) != nullptr) {
    return fmt::format("at step {}, ", record.step);
  }
  return fmt::format("at step {}{}, {}, {}",
                     record.step,
                     rank == nullptr ? "" : " of rank " + *rank,
                     core::name_of(record.phase),
                     core::is_of_worker(record.lane) ? core::lane_text(record.lane) + ", " : "");
}

void put_at_op(Line& line, const Report& report, const OpDivergence& op) {
  const DivergenceKind kind = report.kind;
  const std::string when = when_text(report, op);
  line.put(when.empty() ? " at " : " " + when).put(op_line(op));
  const bool is_shifted =
      op.baseline_index && op.candidate_index && *op.baseline_index != *op.candidate_index;
  line.put(is_shifted ? fmt::format(" (op {} in candidate)", *op.candidate_index) : "");
  line.put(": " + op_amount(op));
  put_relation(line, op.relation);
  line.put(op.cause.kind == CauseKind::kOverflow ? ", overflow" : "");
  line.put(kind == DivergenceKind::kUninitialised ? ", reads uninitialised memory"
           : kind == DivergenceKind::kRng         ? ", generators started from different states"
                                                  : "");
}

// Of the tensors that the runs were given, those that a divergence from the weights or the inputs
// is about.
std::vector<const comparators::NamedTensorDifference*> named_at_fault(const Report& report) {
  std::vector<const comparators::NamedTensorDifference*> found;
  for (const comparators::NamedTensorDifference& tensor : report.named_tensors) {
    const bool is_input = tensor.kind == core::NamedTensorKind::kInput;
    if (report.kind == (is_input ? DivergenceKind::kInputs : DivergenceKind::kWeights)) {
      found.push_back(&tensor);
    }
  }
  return found;
}

// Weights or inputs: no operator is to blame, so the line names the tensor first.
void put_from_named(Line& line, const Report& report) {
  const bool is_weights = report.kind == DivergenceKind::kWeights;
  line.put(report.from_accepted ? " in" : " from").put(is_weights ? " the weights" : " the inputs");
  const auto named = named_at_fault(report);
  if (!named.empty()) {
    line.put(": ").put(named[0]->name, Role::kPlace).put(", " + amount_text(*named[0]));
    line.put(named.size() > 1 ? fmt::format(", and {} more", named.size() - 1) : "");
  }
  if (report.first_divergence) {
    line.put("; first reached " + when_text(report, *report.first_divergence))
        .put(op_line(*report.first_divergence));
    put_relation(line, report.first_divergence->relation);
  } else if (named.empty() && !report.reasons.empty()) {
    line.put(": " + words_of(report.reasons.front()));
  } else {
    line.put("; no operator differs");
  }
}

std::string ran_text(std::string_view side, const std::string& operator_name) {
  return operator_name.empty() ? fmt::format("{} ended", side)
                               : fmt::format("{} ran {}", side, operator_name);
}

// A loop, a decomposition or another order says more than which operators are left over.
std::string structure_text(const comparators::Cause& cause) {
  if (cause.kind == CauseKind::kReordered) return ", called in another order";
  const std::string brief = brief_of(cause);
  return brief.empty() ? "" : "; " + brief;
}

void put_control_flow(Line& line, const Report& report) {
  line.put(" in control flow");
  if (!report.control_flow) return;
  const auto& parting = *report.control_flow;
  const bool is_placed = report.first_divergence.has_value();
  const std::string when = is_placed ? when_text(report, *report.first_divergence) : "";
  if (parting.last_common_baseline) {
    line.put(when.empty() ? " after " : " " + when + "after ")
        .put(op_line(*parting.last_common_baseline, parting.last_common));
  } else {
    line.put(" at the first operator");
  }
  line.put(": " + ran_text("baseline", parting.baseline_next) + ", " +
           ran_text("candidate", parting.candidate_next));
  if (report.first_divergence) line.put(structure_text(report.first_divergence->cause));
}

void put_missing(Line& line, const Report& report) {
  const auto& c = report.coverage;
  line.put(fmt::format(": {} only in baseline, {} only in candidate",
                       format_count(c.missing_in_candidate, "operator"),
                       format_count(c.missing_in_baseline)));
  if (report.first_divergence) {
    const OpDivergence& op = *report.first_divergence;
    line.put("; first " + when_text(report, op)).put(op_line(op));
    line.put(op.baseline_index ? ", missing in candidate" : ", missing in baseline",
             Role::kMissing);
    const auto& generator = shown_record(op).generator;
    line.put(generator && generator->drawn > 0 ? ", RNG stream parted" : "");
    line.put(structure_text(op.cause));
  }
}

// No operator fails, so what grew is what there is to name.
void put_growth(Line& line, const Report& report) {
  const auto& growth = report.growth;
  line.put(", the error grows");
  if (growth.ratio && growth.first && growth.last) {
    line.put(fmt::format(" {:.4g} times, from op {} {} to op {} {}",
                         *growth.ratio,
                         growth.first->op,
                         growth.first->operator_name,
                         growth.last->op,
                         growth.last->operator_name));
  }
}

// `9 kinds of state right, 1 that was not used differs`.
std::string restored_counts(const Report& report) {
  const auto count = [&](comparators::Restored outcome) {
    return std::ranges::count(report.resume->states, outcome, &comparators::RestoredState::outcome);
  };
  const auto right = static_cast<std::uint64_t>(count(comparators::Restored::kRight));
  const auto open = static_cast<std::uint64_t>(count(comparators::Restored::kNotProven));
  return fmt::format("{} of state right{}",
                     format_count(right, "kind"),
                     open == 0 ? ""
                               : fmt::format(", {} that {} not used differ{}",
                                             format_count(open),
                                             open == 1 ? "was" : "were",
                                             open == 1 ? "s" : ""));
}

void put_restore(Line& line, const Report& report) {
  const comparators::ResumeSummary& resume = *report.resume;
  line.put(fmt::format(" at step {}, the first of the resumed run: ", resume.step));
  line.put(restored_text(*resume.leading()), Role::kPlace);
  if (report.first_divergence) {
    line.put("; first operator ").put(op_line(*report.first_divergence));
  } else {
    line.put("; no operator differs");
  }
}

void put_divergence(Line& line, const Report& report);

// The comparator sees to it that both rounds are there, and that neither has this kind itself.
void put_unrepeated(Line& line, const Report& report) {
  line.put(", and the divergence does not repeat:");
  bool is_first = true;
  for (const Report& pass : report.passes) {
    line.put(is_first ? " first pair" : "; second pair");
    if (pass.status == Status::kReproducible) {
      line.put(" bit-identical");
    } else {
      put_divergence(line, pass);
    }
    is_first = false;
  }
}

/// What a verdict about a program says in the place of the operator: why it diverged, where that is
/// proven. Empty where it is not, or the verdict is about something else.
std::string proven_why(const Report& report) {
  const auto& first = report.first_divergence;
  const bool is_of_program = !report.runs.empty() && report.runs.front().manifest.is_of_program();
  const bool is_of_operator =
      report.kind != DivergenceKind::kGrowth && report.kind != DivergenceKind::kUnrepeated &&
      report.kind != DivergenceKind::kRestore && report.kind != DivergenceKind::kExpectation;
  if (report.status != Status::kDiverged || !first || !is_of_program || !is_of_operator ||
      core::is_of_blocks(shown_record(*first)) || first->relation == Relation::kPropagated ||
      !is_proven(first->cause)) {
    return {};
  }
  return headline_of(first->cause);
}

/// The first step and name that differ.
void put_number(Line& line, const Report& report, const OpDivergence& op) {
  const std::string* rank = rank_of_several(report);
  line.put(fmt::format(
      " at step {}{}: ", shown_record(op).step, rank == nullptr ? "" : " of rank " + *rank));
  if (op.relation == Relation::kMissing) {
    line.put(operator_text(shown_record(op)), Role::kOperator)
        .put(fmt::format(" in the {} only", op.baseline_index ? "baseline" : "candidate"));
  } else {
    line.put(op_amount(op));
    const std::size_t more = op.outputs.size() - std::min<std::size_t>(op.outputs.size(), 1);
    line.put(more == 0 ? "" : fmt::format(", and {} more of this step", more));
  }
}

/// The call of a block, or the parameter, that differs first.
void put_border(Line& line, const OpDivergence& op) {
  const core::OpRecord& record = shown_record(op);
  line.put(fmt::format(" at step {}, {}, ", record.step, core::name_of(record.phase)));
  if (record.op->name == core::kParametersRecord) {
    const std::string_view slot = op.outputs.front().baseline.slot;
    line.put("parameter ")
        .put(std::string(slot.substr(core::kParameterPrefix.size())), Role::kPlace);
    line.put(": it differs behind the optimizer's step");
    return;
  }
  line.put(op_line(op));
  if (op.occurrence > 0) line.put(fmt::format(", call {}", op.occurrence));
  if (op.relation == Relation::kMissing) {
    line.put(op.baseline_index ? ": missing in candidate" : ": missing in baseline",
             Role::kMissing);
    return;
  }
  line.put(": its output differs");
  put_relation(line, op.relation);
}

/// Where the runs part, and by how much.
void put_parting(Line& line, const Report& report) {
  const auto& first = report.first_divergence;
  if (first && core::is_returned(shown_record(*first))) {
    line.put(" in what the model returns: ").put(returned_amount(*first));
    return put_relation(line, first->relation);
  }
  const bool repeats = report.kind != DivergenceKind::kUnrepeated;
  const bool is_border = first && core::is_of_blocks(shown_record(*first));
  if (repeats && is_border) return put_border(line, *first);
  if (report.numbers && first && !is_border) return put_number(line, report, *first);
  switch (report.kind) {
    case DivergenceKind::kInputs:
    case DivergenceKind::kWeights:
      return put_from_named(line, report);
    case DivergenceKind::kControlFlow:
      return put_control_flow(line, report);
    case DivergenceKind::kMissing:
      return put_missing(line, report);
    case DivergenceKind::kGrowth:
      return put_growth(line, report);
    case DivergenceKind::kUnrepeated:
      if (report.passes.size() > 1) return put_unrepeated(line, report);
      break;
    case DivergenceKind::kRestore:
      if (report.resume && report.resume->leading() != nullptr) return put_restore(line, report);
      break;
    case DivergenceKind::kExpectation:
      line.put(report.reasons.empty() ? "" : ": " + words_of(report.reasons.front()));
      return;
    default:
      break;
  }
  if (first) {
    put_at_op(line, report, *first);
  } else if (!report.reasons.empty()) {
    line.put(": " + words_of(report.reasons.front()));
  }
}

void put_divergence(Line& line, const Report& report) {
  if (report.numbers) line.put(" numbers");
  if (report.from_accepted) line.put(" from the baseline");
  const std::string why = proven_why(report);
  if (why.empty()) return put_parting(line, report);
  const std::string* rank = rank_of_several(report);
  line.put(fmt::format(" at step {}{}: {}",
                       shown_record(*report.first_divergence).step,
                       rank == nullptr ? "" : " of rank " + *rank,
                       why));
}

std::string failed_run_text(const Report& report) {
  for (const auto& run : report.runs) {
    if (run.status == "complete") continue;
    const std::string how = run.signal.empty() ? run.message : "killed by " + run.signal;
    return run.name + ": " + (how.empty() ? run.status : how);
  }
  return "see the log of the run";
}

void put_trouble(Line& line, const Report& report) {
  const std::string numbers = numbers_trouble(report);
  if (!report.reasons.empty()) {
    line.put(": " + words_of(report.reasons.front()));
  } else if (!numbers.empty()) {
    line.put(" numbers: " + numbers);
  } else if (report.status == Status::kNothingCompared) {
    line.put(": no operator was compared");
  } else {
    line.put(": " + failed_run_text(report));
  }
}

}  // namespace

std::vector<std::string> unsaid_reasons(const Report& report) {
  std::vector<std::string> reasons = texts_of(report.reasons);
  if (reasons.empty()) return reasons;
  bool is_said = report.status != Status::kReproducible;
  if (report.status == Status::kDiverged) {
    const bool has_own_line =
        report.kind == DivergenceKind::kControlFlow || report.kind == DivergenceKind::kMissing ||
        report.kind == DivergenceKind::kGrowth || report.kind == DivergenceKind::kRestore ||
        (report.kind == DivergenceKind::kUnrepeated && report.passes.size() > 1);
    is_said = report.kind == DivergenceKind::kExpectation ||
              (!report.first_divergence && named_at_fault(report).empty() && !has_own_line);
  }
  if (is_said) reasons.erase(reasons.begin());
  return reasons;
}

std::string verdict_word(Status status) {
  std::string word(word_of(status));
  for (char& c : word) c = c == '_' ? ' ' : static_cast<char>(c - 'a' + 'A');
  return word;
}

Role verdict_role(Status status) noexcept {
  if (status == Status::kReproducible) return Role::kGood;
  const bool is_bad = status == Status::kDiverged || status == Status::kObserverEffect;
  return is_bad ? Role::kBad : Role::kTrouble;
}

Role relation_role(Relation relation) noexcept {
  if (relation == Relation::kPropagated) return Role::kPropagated;
  return relation == Relation::kMissing ? Role::kMissing : Role::kOrigin;
}

std::string operator_text(const core::OpRecord& record) {
  return record.op == nullptr || record.op->name.empty() ? "(no operator)" : record.op->name;
}

std::string operator_in_module(const OpDivergence& op) {
  const std::string_view module = module_of(shown_record(op));
  return fmt::format(
      "{}{}{}", operator_text(shown_record(op)), module.empty() ? "" : " in ", module);
}

std::vector<const OpDivergence*> every_divergence(const Report& report) {
  std::vector<const OpDivergence*> all;
  if (report.first_divergence) all.push_back(&*report.first_divergence);
  for (const OpDivergence& op : report.divergences) all.push_back(&op);
  return all;
}

std::string_view index_owner(const OpDivergence& op) noexcept {
  return op.baseline_index ? "" : "candidate ";
}

Line op_line(const OpDivergence& op) {
  return Line(std::string(index_owner(op))).put(op_line(shown_index(op), shown_record(op)));
}

Line op_line(std::uint64_t index, const core::OpRecord& record) {
  if (core::is_of_blocks(record)) {
    const std::string path(module_of(record));
    return Line("block ").put(path.empty() ? "(the whole model)" : path, Role::kPlace);
  }
  Line line(fmt::format("op {} ", index));
  line.put(operator_text(record), Role::kOperator);
  const std::string place = core::place_of(record.site.get());
  if (place.empty()) return line;
  const core::SourceFrame* frame =
      record.site == nullptr ? nullptr : core::display_frame(*record.site);
  const std::string_view file = frame == nullptr ? std::string_view() : frame->file;
  return line.put(" (").link(place, Role::kPlace, file).put(")");
}

std::string amount_text(const comparators::NamedTensorDifference& tensor) {
  const std::string note = sentence_of(tensor.note);
  if (!tensor.metrics) return note.empty() ? "digests differ" : note;
  return joined({count_text(*tensor.metrics, false), size_text(*tensor.metrics), note}, ", ");
}

bool is_from_named(const Report& report) noexcept {
  return report.kind == DivergenceKind::kWeights || report.kind == DivergenceKind::kInputs;
}

std::string index_text(const Sample& sample) {
  return sample.index.empty() && sample.flat_index > 0 ? fmt::format("{}", sample.flat_index)
                                                       : format_index(sample.index);
}

std::vector<std::vector<std::string>> sample_rows(const std::vector<Sample>& samples,
                                                  std::size_t most) {
  const std::span shown(samples.data(), std::min(most, samples.size()));
  if (shown.empty()) return {};
  const bool with_ulp =
      std::ranges::any_of(samples, [](const Sample& sample) { return sample.ulp.has_value(); });
  std::vector<std::vector<std::string>> rows{
      {"index", "baseline", "candidate", with_ulp ? "ULP" : ""}};
  for (const Sample& sample : shown) {
    rows.push_back({index_text(sample),
                    side_text(sample, sample.baseline, sample.baseline_bits),
                    side_text(sample, sample.candidate, sample.candidate_bits),
                    sample.ulp ? format_ulp(*sample.ulp)
                    : with_ulp ? "-"
                               : ""});
  }
  return rows;
}

std::string slice_text(const comparators::TensorComparison& tensor) {
  if (!tensor.slice) return {};
  const auto total = static_cast<std::uint64_t>(core::element_count(tensor.baseline.shape));
  return core::describe_slice(*tensor.slice, total);
}

std::string amount_text(const comparators::TensorComparison& tensor) {
  std::string note = sentence_of(tensor.note);
  if (tensor.outcome == TensorOutcome::kMismatch || !tensor.metrics) {
    const bool is_mismatch = tensor.outcome == TensorOutcome::kMismatch;
    if (!note.empty()) return note;
    return is_mismatch ? "dtype, shape or layout differs" : "differs";
  }
  const std::string slice = slice_text(tensor);
  return joined({count_text(*tensor.metrics, tensor.outcome == TensorOutcome::kBeyond),
                 size_text(*tensor.metrics),
                 note,
                 needed_text(tensor),
                 slice.empty() ? "" : "in " + slice},
                ", ");
}

const comparators::TensorComparison* leading_output(const OpDivergence& op) noexcept {
  const auto heavier = [](const auto& left, const auto& right) {
    return weight(left.outcome) < weight(right.outcome);
  };
  const auto found = std::max_element(op.outputs.begin(), op.outputs.end(), heavier);
  return found == op.outputs.end() ? nullptr : &*found;
}

std::string returned_amount(const OpDivergence& op) {
  if (const auto* output = leading_output(op)) {
    const bool is_here = !output->baseline.slot.empty();
    return fmt::format(
        "{}: {}", is_here ? output->baseline.slot : output->candidate.slot, amount_text(*output));
  }
  const std::vector<std::string> notes = notes_of(op);
  return notes.empty() ? sentence_of(op.cause.evidence) : notes.front();
}

namespace {

/// Of values that a person knows by name, a number is shown as the two that it is:
/// `loss: 2.302585 against 2.302586, max 4 ULP`.
std::string named_amount(const OpDivergence& op) {
  const auto* output = leading_output(op);
  const bool is_number = output != nullptr && output->metrics && output->metrics->elements == 1 &&
                         output->samples.size() == 1;
  if (!is_number) return returned_amount(op);
  const comparators::Sample& sample = output->samples.front();
  std::string text =
      fmt::format("{}: {} against {}", output->baseline.slot, sample.baseline, sample.candidate);
  if (sample.ulp) text += fmt::format(", {} ULP", format_ulp(*sample.ulp));
  return text;
}

}  // namespace

std::string op_amount(const OpDivergence& op) {
  if (core::is_named_values(shown_record(op))) return named_amount(op);
  if (const auto* output = leading_output(op)) return amount_text(*output);
  const std::vector<std::string> notes = notes_of(op);
  return notes.empty() ? "results differ" : notes.front();
}

std::string blocks_text(const Report& report) {
  if (!report.blocks) return {};
  const comparators::BlockComparison& blocks = *report.blocks;
  std::string text = fmt::format("{} of {} in {}{}, {} differ, {} missing",
                                 format_count(blocks.compared + blocks.unread, "call"),
                                 format_count(blocks.blocks, "block"),
                                 format_count(blocks.steps, "step"),
                                 blocks.every > 1 ? fmt::format(", 1 of {}", blocks.every) : "",
                                 format_count(blocks.differing),
                                 format_count(blocks.missing));
  if (blocks.borders_aside && blocks.differing + blocks.missing > 0) text += ", not judged";
  if (blocks.unread > 0) text += fmt::format(", {} not read", format_count(blocks.unread));
  text += fmt::format("; {}, {} differ",
                      format_count(blocks.parameters, "parameter"),
                      format_count(blocks.parameters_differing));
  if (blocks.parameters_unread > 0) {
    text += fmt::format(", {} not read", format_count(blocks.parameters_unread));
  }
  if (const std::uint64_t records = report.coverage.compared; records > 0) {
    text += fmt::format("; {} of batches, losses{} and steps",
                        format_count(records, "record"),
                        blocks.exchanges > 0 ? ", collectives" : "");
  }
  if (!blocks.unopened.empty()) {
    text += fmt::format("; types that are not read: {}", fmt::join(blocks.unopened, ", "));
  }
  if (!blocks.not_seen.empty()) {
    text += fmt::format("; not called: {}", fmt::join(blocks.not_seen, ", "));
  }
  return text +
         (blocks.exchanges > 0 ? "; no other operator was compared" : "; no operator was compared");
}

std::string_view verified_text(bool whole) noexcept {
  return whole ? "every content, the index and the manifest match their digests"
               : "every content of its own, the index and the manifest match their digests";
}

std::string restored_text(const comparators::RestoredState& state) {
  std::string text = fmt::format(
      "{} {}", comparators::state_name(state.kind), comparators::restored_name(state.outcome));
  std::vector<std::string> parts;
  if (state.name != comparators::state_name(state.kind)) parts.push_back(state.name);
  parts.push_back(sentence_of(state.detail));
  if (state.moved) parts.push_back("moved by " + format_count(*state.moved, "number"));
  if (!state.place.empty()) parts.push_back("at " + state.place);
  if (state.differing > 1) {
    parts.push_back(
        fmt::format("{} of {} differ", format_count(state.differing), format_count(state.items)));
  }
  return joined({text, joined(parts, ", ")}, ": ");
}

namespace {

std::string differing(const comparators::ReturnedValues& returned) {
  const bool is_inherited = returned.first->relation == Relation::kPropagated;
  const std::string cause = is_inherited ? "; " + sentence_of(returned.first->cause.evidence) : "";
  std::string text = returned_amount(*returned.first) + cause;
  if (returned.compared < 2) return text;
  return fmt::format("{}; {} of {} differ",
                     text,
                     format_count(returned.diverged + returned.missing),
                     format_count(returned.compared + returned.missing, "call"));
}

std::string agreeing(const comparators::ReturnedValues& returned) {
  const auto counted = [](std::uint64_t count, std::string_view noun, std::string_view how = "") {
    return count == 0 ? std::string() : format_count(count, noun).append(how);
  };
  const std::string calls = joined({counted(returned.equal, "call", " bit-identical"),
                                    counted(returned.within_policy, "call", " within policy"),
                                    counted(returned.skipped, "call", " not compared"),
                                    counted(returned.not_judged, "call", " not judged")},
                                   ", ");
  const std::string what = values_text(returned);
  return what.empty() ? calls : fmt::format("{} ({})", calls, what);
}

std::string seeds_text(const comparators::RandomDraws& draws) {
  if (draws.seeds.size() == 1) return fmt::format("seed {}", draws.seeds.front());
  const bool is_all = draws.seeds.size() < comparators::RandomDraws::kMostSeeds;
  return fmt::format("seeds {}{}", fmt::join(draws.seeds, ", "), is_all ? "" : " and others");
}

/// Most are float32, and have few digits as that.
std::string loss_text(const comparators::Metric& number) {
  if (!number) return "none";
  const auto narrow = static_cast<float>(*number);
  return static_cast<double>(narrow) == *number ? fmt::format("{}", narrow)
                                                : fmt::format("{}", *number);
}

/// `; parameters apart since step 3 by 1e-07, after step 9 by 2e-06`
std::string drift_text(const comparators::StepSeries& drift) {
  const auto apart = [&](std::size_t at) {
    const comparators::Metric& distance = drift.candidate[at];
    return " by " + (distance ? format_error(*distance) : "what has no number");
  };
  const auto known = std::ranges::find(drift.steps, *drift.first_apart);
  const bool is_last = drift.steps.back() == *drift.first_apart;
  return fmt::format("; parameters apart since step {}", *drift.first_apart) +
         (known == drift.steps.end()
              ? ""
              : apart(static_cast<std::size_t>(known - drift.steps.begin()))) +
         (is_last
              ? ""
              : fmt::format(", after step {}", drift.steps.back()) + apart(drift.steps.size() - 1));
}

}  // namespace

std::string dumps_text(const Report& report) {
  return joined(report.runs, ", ", [](const RunSummary& run) { return run.location; });
}

std::string returned_text(const Report& report) {
  const comparators::ReturnedValues& returned = report.returned;
  if (returned.baseline == 0 && returned.candidate == 0) {
    // A program hands nothing back: what it makes are its losses and weights, which are records.
    const bool is_program = !report.runs.empty() && report.runs.front().manifest.is_of_program();
    const bool passes = report.status == Status::kReproducible && !is_program;
    return passes ? "not recorded, so not compared" : "";
  }
  if (returned.baseline == 0 || returned.candidate == 0) {
    return fmt::format("not recorded in the {}, so not compared",
                       returned.baseline == 0 ? "baseline" : "candidate");
  }
  if (returned.is_opaque() && !returned.first) {
    return fmt::format("of {} only the type was compared", fmt::join(returned.opaque, ", "));
  }
  const std::string text = returned.first ? differing(returned) : agreeing(returned);
  return returned.opaque.empty() ? text
                                 : text + fmt::format("; of {} only the type was compared",
                                                      fmt::join(returned.opaque, ", "));
}

std::string training_text(const Report& report) {
  using Kind = comparators::StepSeries::Kind;
  const auto first_of = [&](Kind kind) {
    const auto found = std::ranges::find(report.steps, kind, &comparators::StepSeries::kind);
    return found == report.steps.end() || found->steps.empty() ? nullptr : &*found;
  };
  const comparators::StepSeries* loss = first_of(Kind::kLoss);
  const comparators::StepSeries* drift = first_of(Kind::kDrift);
  if (loss == nullptr) return {};
  const std::string from = loss_text(loss->baseline.back());
  const std::string to = loss_text(loss->candidate.back());
  return fmt::format("loss of step {}: {}", loss->steps.back(), from) +
         (from == to ? "" : " | " + to) +
         (loss->first_apart ? fmt::format(", apart since step {}", *loss->first_apart) : "") +
         (drift != nullptr && drift->first_apart ? drift_text(*drift) : "");
}

std::string data_text(const Report& report) {
  using comparators::DataVerdict;
  const bool equal = std::ranges::all_of(
      report.data, [](const auto& loader) { return loader.verdict == DataVerdict::kEqual; });
  if (report.data.empty() || (equal && report.status != Status::kDiverged)) return {};
  return joined(report.data, "; ", [&](const comparators::DataComparison& loader) {
    // Of several only those that say something.
    if (!equal && loader.verdict == DataVerdict::kEqual) return std::string();
    const bool computed = equal && report.coverage.diverged != 0;
    const FindingText text = words_of(loader.finding);
    const std::string what = fmt::format("{}: {}{}",
                                         loader.loader,
                                         text.evidence,
                                         computed ? ": it is the computation that differs" : "");
    return joined({what, text.fix}, "; ");
  });
}

std::string program_text(const Report& report) {
  if (report.runs.empty()) return {};
  const core::RunManifest& manifest = report.runs.front().manifest;
  const std::string calls = joined(manifest.environment, "; ", [&](const auto& fact) {
    if (!fact.name.starts_with(core::kSetByProgram)) return std::string();
    const std::string name = fact.name.substr(core::kSetByProgram.size());
    return name + " " + core::with_place(manifest, name, fact.value);
  });
  return calls.empty() ? "" : "itself called " + calls;
}

namespace {

/// `numpy.random.default_rng was given the seed of the run (1 call, first at train.py:7)`.
std::string pinned_text(const Report& report) {
  const auto& facts = report.runs.front().manifest.environment;
  return joined(facts, ", ", [](const core::EnvironmentFact& fact) {
    if (!fact.name.starts_with(core::kPinned)) return std::string();
    return fmt::format("{} was given the seed of the run ({})",
                       fact.name.substr(core::kPinned.size()),
                       fact.value);
  });
}

std::string drawn_by_operators_text(const Report& report) {
  const comparators::RandomDraws& draws = report.draws;
  if (draws.operators == 0) return {};
  const std::string text = fmt::format(
      "{} drew from {}", format_count(draws.operators, "operator"), fmt::join(draws.devices, ", "));
  if (!draws.parting.empty()) return text + "; " + sentence_of(draws.parting);
  if (report.resume) {
    return fmt::format(
        "{} ({}), from where the first run's generators had come", text, seeds_text(draws));
  }
  const auto& first = report.runs.front().manifest;
  if (core::environment_fact(first, core::kFramework) != nullptr) {
    return fmt::format(
        "{}, which the program makes itself, whatever the runs' seeds: "
        "{} in {} runs",
        text,
        draws.operators == 1 ? "it agrees" : "they agree",
        report.repeat ? "all" : "both");
  }
  const auto has_other_seed = [&](const RunSummary& run) {
    return core::given_seed(run.manifest) != core::given_seed(first);
  };
  // A baseline of a gate does not say its own.
  if (!report.from_accepted && std::ranges::any_of(report.runs, has_other_seed)) {
    return fmt::format(
        "{} ({}), by which the {} seeds its generators itself, whatever the runs' seeds",
        text,
        seeds_text(draws),
        first.is_of_program() ? "program" : "model");
  }
  return fmt::format("{} ({}): {} because {} runs had the same seed",
                     text,
                     seeds_text(draws),
                     draws.operators == 1 ? "it agrees" : "they agree",
                     report.repeat ? "all" : "both");
}

std::string drawn_text(const Report& report) {
  return joined({drawn_by_operators_text(report), sentence_of(report.draws.of_host)}, "; ");
}

}  // namespace

std::string random_text(const Report& report) {
  const bool agrees = report.status == Status::kReproducible || report.status == Status::kPartial;
  if (!agrees || report.runs.empty()) return {};
  return joined({drawn_text(report), pinned_text(report)}, "; ");
}

std::string ranks_text(const Report& report) {
  constexpr std::size_t kMost = 3;
  const auto& parting = report.rank_divergences;
  if (report.ranks.size() < 2) return {};
  const std::string* of = rank_of_several(report);
  const auto shown = std::span(parting).first(std::min(parting.size(), kMost));
  std::string parts = joined(shown, ", ", [](const comparators::RankDivergence& first) {
    return fmt::format("rank {} parts at {}", first.rank, comparators::op_text(first.op));
  });
  if (parting.size() > kMost) parts += fmt::format(", and {} more", parting.size() - kMost);
  const std::size_t alike = report.ranks.size() - parting.size();
  const bool is_said = parting.empty() || alike == 0;
  return joined({fmt::format("{} compared", report.ranks.size()),
                 of == nullptr ? "" : "what else is said is of rank " + *of,
                 parts,
                 is_said ? "" : fmt::format("{} {} not", alike, alike == 1 ? "does" : "do")},
                "; ");
}

std::string checkpoint_text(const comparators::ResumeSummary& resume) {
  const Json model{{"saved", resume.saved},
                   {"before_update", resume.before_update ? Json(*resume.before_update) : Json()},
                   {"loaded", resume.loaded}};
  return joined({say_unescaped(view_text("report", "saved"), model),
                 say_unescaped(view_text("report", "loaded"), model)},
                ", ");
}

std::string code_text(const Report& report) {
  const auto& first = report.first_divergence;
  if (report.status != Status::kDiverged || !first || first->code.empty()) return {};
  return core::line_text(shown_record(*first).site.get()) + ": " + first->code;
}

std::string mend_of(const Report& report) {
  if (report.mend) return words_of(*report.mend);
  if (report.kind == DivergenceKind::kRestore && report.resume) {
    if (const auto* state = report.resume->leading()) return words_of(*finding_of(*state)).fix;
  }
  // The cause of a divergence says it.
  if (report.status == Status::kDiverged) return numbers_mend(report);
  for (const comparators::Phrase& reason : report.reasons) {
    if (std::string fix = fix_of(reason); !fix.empty()) return fix;
  }
  return numbers_mend(report);
}

std::string fix_of(const Report& report) {
  std::string mend = mend_of(report);
  const bool has_cause = report.status == Status::kDiverged && report.first_divergence;
  return mend.empty() && has_cause ? words_of(report.first_divergence->cause).fix : mend;
}

std::optional<Line> parting_line(const Report& report) {
  if (proven_why(report).empty()) return std::nullopt;
  Line line("parts");
  put_parting(line, report);
  return line;
}

Line verdict_line(const Report& report) {
  Line line(verdict_word(report.status), verdict_role(report.status));
  if (report.status == Status::kReproducible) {
    put_pass(line, report);
    if (report.resume) {
      line.put(
          fmt::format(", resumed at step {}: {}", report.resume->step, restored_counts(report)));
    }
  } else if (report.status == Status::kDiverged) {
    put_divergence(line, report);
  } else {
    put_trouble(line, report);
  }
  for (const Status status : report.also) {
    line.put("; also ").put(verdict_word(status), verdict_role(status));
    if (status == Status::kDiverged && report.first_divergence) {
      line.put(" at ").put(op_line(*report.first_divergence));
    }
  }
  if (report.repeat) put_repeats(line, *report.repeat);
  return line;
}

std::string headline(const Report& report) { return verdict_line(report).str(false); }

}  // namespace repro_check::cmd
