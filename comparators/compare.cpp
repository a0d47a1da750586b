// SPDX-License-Identifier: Apache-2.0
#include "comparators/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/blocks/blocks.h"
#include "comparators/cause/differences.h"
#include "comparators/cause/host_generators.h"
#include "comparators/cause/observations.h"
#include "comparators/data/data_order.h"
#include "comparators/judge/rule_book.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/policy.h"
#include "comparators/ranks/other_world.h"
#include "comparators/resume/resume.h"
#include "comparators/runs/numbers.h"
#include "comparators/runs/obstacles.h"
#include "comparators/walk/walk.h"
#include "core/tensor/content.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// The first of two dumps that cannot be read; null where both can.
const core::DumpSource* unreadable(const core::DumpSource& baseline,
                                   const core::DumpSource& candidate) {
  for (const core::DumpSource* source : {&baseline, &candidate}) {
    const auto damage = damage_in([&] {
      for (std::uint64_t i = 0; i < source->op_count(); ++i) static_cast<void>(source->op(i));
      for (std::uint64_t i = 0; i < source->block_count(); ++i) static_cast<void>(source->block(i));
      for (std::uint64_t i = 0; i < source->parameter_count(); ++i) {
        static_cast<void>(source->parameter(i));
      }
    });
    if (damage) return source;
  }
  return nullptr;
}

/// What the comparison could not look at, because a dump refers to one that was not given.
Phrases missing_references(const std::vector<RunSummary>& runs) {
  Phrases missing;
  for (const RunSummary& run : runs) {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) continue;
    missing.push_back(Phrase("reference-missing",
                             {{"dump", run.location},
                              {"contents", run.manifest.trace.reference->contents},
                              {"why", run.missing_reference}}));
  }
  return missing;
}

std::uint64_t readable_bytes(const core::DumpSource& dump) {
  const core::TraceSummary& trace = dump.manifest().trace;
  const bool is_whole = trace.reference && dump.missing_reference().empty();
  return trace.stored_bytes + (is_whole ? trace.reference->bytes : 0);
}

/// How records of the two recordings may be paired. What was recorded at depth `all` is compared
/// with what was recorded at depth `top` by its outermost calls.
/// @return empty when the depths leave nothing to compare
std::optional<PairingOptions> pairing_options_of(const core::RunManifest& baseline,
                                                 const core::RunManifest& candidate,
                                                 const configs::CompareSpec& spec) {
  const std::string& here = baseline.trace.depth;
  const std::string& there = candidate.trace.depth;
  PairingOptions options;
  options.mode = spec.align;
  options.map = &spec.map;
  // At `top` there may be nested calls as well: of classes of tensors.
  options.baseline.top_only = options.candidate.top_only =
      (here == "all" && there == "top") || (here == "top" && there == "all");
  if (here == there || options.baseline.top_only) return options;
  return std::nullopt;
}

/// What every entry of the map matched.
/// @param tensors  per entry, named tensors of the candidate
NameMapUse map_use(const configs::NameMap& map,
                   const Pairing& pairing,
                   const std::vector<std::uint64_t>& tensors) {
  NameMapUse use;
  use.file = map.file;
  for (std::size_t i = 0; i < map.entries.size(); ++i) {
    const configs::NameRewrite& entry = map.entries[i];
    use.entries.push_back({entry.line,
                           std::string(configs::name_of(entry.kind)),
                           entry.pattern.text(),
                           entry.replacement,
                           pairing.rewritten[i],
                           tensors[i]});
  }
  return use;
}

/// What a reader has to know of the pairing beside the divergences.
void add_alignment_warnings(Report& report) {
  const AlignmentSummary& alignment = report.alignment;
  Phrases& warnings = report.warnings;
  for (const NameMapUse::Entry& entry : report.name_map.entries) {
    if (entry.operators != 0 || entry.tensors != 0) continue;
    warnings.push_back(Phrase("name-unused",
                              {{"file", report.name_map.file},
                               {"number", entry.line},
                               {"kind", entry.kind},
                               {"pattern", entry.pattern}}));
  }
  if (alignment.gave_up) warnings.emplace_back("alignment-gave-up");
  if (alignment.order != 0) {
    warnings.push_back(Phrase("in-other-order", {{"calls", alignment.order}}));
  }
  for (const bool baseline : {true, false}) {
    const std::uint64_t count =
        baseline ? alignment.left_out_baseline : alignment.left_out_candidate;
    if (count == 0) continue;
    warnings.push_back(Phrase("nested-left-out", {{"calls", count}, {"run", run_field(baseline)}}));
  }
}

/// @throws core::Error{kInternal} when the sums of Coverage do not hold
void check_coverage(const Coverage& c, std::uint64_t matched) {
  struct Sum {
    std::string_view of;
    std::uint64_t parts;
    std::uint64_t whole;
  };
  for (const auto& [of, parts, whole] :
       {Sum{"baseline operators",
            matched + c.missing_in_candidate + c.replaced_baseline,
            c.baseline_ops},
        Sum{"candidate operators",
            matched + c.missing_in_baseline + c.replaced_candidate,
            c.candidate_ops},
        Sum{"compared", c.equal + c.within_policy + c.diverged + c.mismatched, c.compared},
        Sum{"matched", c.compared + c.skipped + c.not_judged, matched},
        Sum{"not fine", c.origins + c.propagated, c.diverged + c.mismatched},
        Sum{"outputs",
            c.tensors + c.metadata_only + c.ignored + c.not_judged_tensors,
            c.outputs}}) {
    if (parts == whole) continue;
    throw core::internal_error(
        fmt::format("the accounting of the comparison does not close: {}: {}, and their parts "
                    "are {}",
                    of,
                    whole,
                    parts),
        "please report this with both dumps");
  }
}

/// A trace at whose end the error is more than so many times as great as where it began is worth a
/// warning.
constexpr double kGrowing = 100;

/// How the error grew; empty where it is not known.
std::vector<Field> growth_fields(const Growth& growth) {
  if (!growth.ratio || !growth.first || !growth.last) return {};
  return {{"from_error", growth.first->out.value_or(0)},
          {"from", step_text(*growth.first)},
          {"to_error", growth.last->out.value_or(0)},
          {"to", step_text(*growth.last)},
          {"factor", *growth.ratio}};
}

Phrase nothing_compared(const VerdictInput& input, const Report& report) {
  const Coverage& coverage = report.coverage;
  const bool is_empty = coverage.baseline_ops == 0 || coverage.candidate_ops == 0;
  Phrase why("no-values");
  if (coverage.baseline_ops + coverage.candidate_ops == 0) {
    why.key = "no-operators";
  } else if (is_empty) {
    why = Phrase("no-operators-in", {{"run", run_field(coverage.baseline_ops == 0)}});
  } else if (input.matched == 0) {
    why = Phrase("nothing-matched",
                 {{"baseline", coverage.baseline_ops}, {"candidate", coverage.candidate_ops}});
  } else if (coverage.ignored != 0 && coverage.tensors == 0) {
    why.key = "all-ignored";
  }
  if (report.returned.is_opaque()) why.with("opaque", report.returned.opaque);
  return why;
}

/// Whether two calls of one function part in what it keeps from call to call.
bool goes_on_from_another_call(const Report& report) {
  const auto goes_on = [](const RunSummary& run) {
    return core::text_or_empty(core::environment_fact(run.manifest, kStateOfCalls)) == kKeptState;
  };
  if (!std::ranges::all_of(report.runs, goes_on) || !report.first_divergence) return false;
  const auto is_kept = [](const TensorComparison& input) {
    return input.baseline.requires_grad && input.baseline.producer < 0 &&
           input.candidate.producer < 0;
  };
  return report.kind == DivergenceKind::kWeights ||
         std::ranges::any_of(report.first_divergence->inputs, is_kept);
}

/// What the report leads with.
void settle_first(bool operators_differ, Report& report) {
  if (!operators_differ) {
    // Records that found no counterpart at all are no divergence: nothing was compared.
    report.first_divergence.reset();
    report.divergences.clear();
    report.divergences_total = 0;
    report.control_flow.reset();
  }
  if (!report.first_divergence && report.returned.first) {
    report.first_divergence = report.returned.first;
    report.divergences_total = 1;
  }
  if (report.resume && report.resume->leading() != nullptr) {
    report.kind = DivergenceKind::kRestore;
  } else if (report.first_divergence) {
    report.kind = report.first_divergence->kind;
  } else if (report.growth.exceeded) {
    report.kind = DivergenceKind::kGrowth;
  }
}

/// Warns of errors that grow although every operator is within its policy, and marks those that
/// grow beyond `max_growth`.
void judge_growth(const std::optional<double>& max_growth, Report& report) {
  Growth& growth = report.growth;
  const double ratio = growth.ratio.value_or(0);
  if (max_growth && ratio > *max_growth) {
    growth.exceeded = true;
    report.reasons.push_back(
        Phrase("growth-exceeded", growth_fields(growth)).with("limit", *max_growth));
  }
  // Operators that fail say more than how they came to.
  if (report.coverage.diverged + report.coverage.mismatched != 0) return;
  if (ratio > kGrowing) {
    report.warnings.push_back(Phrase("error-grows", growth_fields(growth)));
  }
  if (growth.steep == 0 || !growth.steepest) return;
  report.warnings.push_back(Phrase("steep-growth",
                                   {{"operators", growth.steep},
                                    {"is_one", growth.steep == 1},
                                    {"limit", kSteepGrowth},
                                    {"most", step_text(*growth.steepest)},
                                    {"factor", growth.steepest->factor.value_or(0)}}));
}

/// Whether an operator that differs makes but single numbers, as what adds up a running loss does.
bool makes_numbers(const OpDivergence& op) {
  const auto is_number = [](const TensorComparison& tensor) {
    return core::element_count(tensor.baseline.shape) == 1 &&
           tensor.baseline.shape == tensor.candidate.shape;
  };
  return (op.relation == Relation::kOrigin || op.relation == Relation::kPropagated) &&
         !core::is_named_values(shown_record(op)) && !core::is_returned(shown_record(op)) &&
         std::ranges::all_of(op.outputs, is_number);
}

/// A resumed run that restored every state, and whose losses and steps are bit-equal, may still add
/// to a number that the checkpoint does not hold, such as the loss that is logged. That is no pass
/// of it, and no divergence of the training.
/// @param steps  of optimizers that were compared
void excuse_running_numbers(std::uint32_t steps, Report& report) {
  const Coverage& coverage = report.coverage;
  const bool is_training_equal =
      report.status == Status::kDiverged && report.also.empty() && steps != 0 &&
      report.resume->leading() == nullptr && report.first_divergence &&
      report.divergences_total == report.divergences.size() + 1 && coverage.mismatched == 0 &&
      coverage.missing_in_baseline + coverage.missing_in_candidate == 0 &&
      report.returned.diverged + report.returned.missing == 0 && !report.growth.exceeded;
  if (!is_training_equal || !makes_numbers(*report.first_divergence) ||
      !std::ranges::all_of(report.divergences, makes_numbers)) {
    return;
  }
  report.status = Status::kNotComparable;
  report.reasons.insert(
      report.reasons.begin(),
      Phrase("number-begun-anew", {{"operator", op_text(shown_record(*report.first_divergence))}}));
}

void add_reasons(const BlockComparison& blocks, Phrases& reasons) {
  if (blocks.borders_open() == 0) return;
  if (blocks.unread != 0) {
    reasons.push_back(Phrase(
        "border-not-read",
        {{"block", blocks.first_unread}, {"calls", blocks.unread}, {"types", blocks.unopened}}));
  }
  if (blocks.of_threads != 0) {
    reasons.push_back(Phrase("borders-of-threads", {{"calls", blocks.of_threads}}));
  }
}

/// Sets status, also, kind and reasons. The most severe of several statuses wins: damaged
/// over diverged over not comparable over nothing compared; missing operators are a divergence only
/// if something matched.
void decide(const VerdictInput& input, Report& report) {
  const Coverage& coverage = report.coverage;
  const std::uint64_t unmatched = coverage.missing_in_baseline + coverage.missing_in_candidate;
  const ReturnedValues& returned = report.returned;
  const bool operators_differ = coverage.diverged + coverage.mismatched != 0 ||
                                (unmatched != 0 && input.matched != 0) || report.growth.exceeded;
  const bool restored = report.resume == std::nullopt || report.resume->leading() == nullptr;
  const BlockComparison blocks = report.blocks.value_or(BlockComparison{});
  const bool diverged =
      operators_differ || !restored || returned.diverged + returned.missing != 0 || blocks.parts();
  std::vector<Status> statuses;
  if (!input.damage.empty()) statuses.push_back(Status::kDamaged);
  if (diverged) statuses.push_back(Status::kDiverged);
  const bool incomparable =
      !input.incomparable.empty() || !input.obstacles.empty() || input.lacks_numbers ||
      coverage.not_judged + returned.not_judged + blocks.borders_open() != 0 ||
      !input.first_unruled.empty();
  if (incomparable) statuses.push_back(Status::kNotComparable);
  // What comes back is something, unless it comes from operators that only one side has.
  const bool has_returned = returned.compared != 0 && !returned.is_opaque() && unmatched == 0;
  const bool nothing =
      input.values == 0 && input.incomparable.empty() && !has_returned && !input.lacks_numbers &&
      (blocks.borders_aside ? 0 : blocks.compared + blocks.unread) + blocks.parameters == 0;
  if (nothing) statuses.push_back(Status::kNothingCompared);
  if (statuses.empty()) statuses.push_back(Status::kReproducible);
  report.status = statuses.front();
  report.also.assign(statuses.begin() + 1, statuses.end());
  settle_first(operators_differ, report);
  lead_with_block(report);
  append(input.damage, report.reasons);
  append(input.incomparable, report.reasons);
  append(input.obstacles, report.reasons);
  report.lacks_rule = !input.first_unruled.empty();
  if (report.lacks_rule) {
    report.reasons.push_back(Phrase("no-rule-for", {{"output", input.first_unruled}}));
  }
  add_reasons(blocks, report.reasons);
  const auto not_judged = [&](std::string_view key, std::uint64_t count, const Phrases& first) {
    if (count == 0) return;
    const bool is_usual = !input.never_read && !input.lacks_floor && !input.lacks_fp64;
    report.reasons.push_back(
        Phrase(key,
               {{"count", count},
                {"first", first},
                {"never_read", input.never_read},
                {"lacks_floor", input.lacks_floor && !input.never_read},
                {"lacks_fp64", input.lacks_fp64 && !input.lacks_floor && !input.never_read},
                {"is_usual", is_usual}}));
  };
  not_judged("operators-not-judged", coverage.not_judged, input.first_not_judged);
  not_judged("returned-not-judged", returned.not_judged, input.returned_not_judged);
  if (nothing && !input.of_numbers) report.reasons.push_back(nothing_compared(input, report));
  if (report.status == Status::kDiverged && goes_on_from_another_call(report)) {
    report.mend = Phrase("do-put-state-back");
  }
}

bool is_of_blocks(const core::DumpSource& dump) { return dump.manifest().is_of_blocks(); }

class Comparison {
 public:
  /// @param worlds   all that is compared, where the two ran on other numbers of ranks; else null
  /// @param numbers  all that is judged, where operators are not; else null
  Comparison(const core::DumpSource& baseline,
             const core::DumpSource& candidate,
             const CompareOptions& options,
             const CommonOfWorlds* worlds = nullptr,
             const NumberRecords* numbers = nullptr)
      : baseline_(baseline),
        candidate_(candidate),
        options_(options),
        worlds_(worlds),
        numbers_(numbers) {}

  Report run() {
    describe_runs();
    if (comparable()) {
      if (pair()) {
        walk({baseline_, candidate_, options_, pairing_, judge_, observations_, verdict_, report_});
        if (!pairing_.moved.empty()) {
          report_.reasons.push_back(
              Phrase("operators-moved", {{"operators", pairing_.moved.size()}}));
        }
        add_alignment_warnings(report_);
        report_.rules = judge_.rules().uses();
        report_unused_rules(options_.spec, report_);
        if (report_.runs.front().manifest.is_of_program()) compare_loaders();
      }
      verify_the_rest();
    }
    finish();
    if (met_) excuse_running_numbers(met_->steps, report_);
    return std::move(report_);
  }

 private:
  void describe_runs() {
    for (const core::DumpSource* source : {&baseline_, &candidate_}) {
      RunSummary& run = report_.runs.emplace_back();
      run.name = source->manifest().run_name;
      run.location = source->location();
      run.manifest = source->manifest();
      run.missing_reference = source->missing_reference();
    }
    report_.policy = describe_policy(options_.spec);
    if (options_.spec.rules.empty()) report_.policy_kind = options_.spec.policy.kind;
    report_.differences = manifest_differences(baseline_.manifest(), candidate_.manifest());
    report_.coverage.baseline_ops = baseline_.op_count();
    report_.coverage.candidate_ops = candidate_.op_count();
    if (numbers_ == nullptr) return;
    report_.numbers = numbers_->summary;
    verdict_.of_numbers = true;
    verdict_.lacks_numbers = numbers_->summary.lacks_named();
  }

  bool comparable() {
    if (!holds_noise() || !holds_fp64() || !recorded_alike()) return false;
    pairing_options_ =
        pairing_options_of(baseline_.manifest(), candidate_.manifest(), options_.spec);
    if (numbers_ != nullptr) return !is_of_blocks(candidate_) || blocks_comparable();
    if (pairing_options_) return blocks_comparable() && (!options_.spec.resume || meets());
    const std::string& here = baseline_.manifest().trace.depth;
    const std::string& there = candidate_.manifest().trace.depth;
    Phrase depths("other-depths", {{"baseline", here}, {"candidate", there}});
    if (is_of_blocks(baseline_) || is_of_blocks(candidate_)) {
      depths.with("again", run_field(!is_of_blocks(baseline_)));
    }
    return refuse(std::move(depths));
  }

  /// Borders, and parameters beside them, are compared by their digests alone, and of the same
  /// steps. Beside numbers borders are counted, and not judged.
  bool blocks_comparable() {
    if (!is_of_blocks(baseline_)) return true;
    if (options_.spec.resume) return refuse(Phrase("blocks-of-resumed"));
    const bool judges_digests = numbers_ == nullptr || baseline_.parameter_count() != 0;
    if (judges_digests && report_.policy_kind != configs::PolicyKind::kBitwise) {
      return refuse(Phrase("borders-are-digests"));
    }
    const auto every = [](const core::DumpSource& dump) {
      return dump.manifest().trace.blocks.value_or(core::BlockSummary{}).every;
    };
    if (numbers_ == nullptr && every(baseline_) != every(candidate_)) {
      return refuse(Phrase("borders-of-other-steps",
                           {{"baseline", every(baseline_)}, {"candidate", every(candidate_)}}));
    }
    BlockComparison found;
    if (const auto damage = damage_in([&] { found = compare_blocks(baseline_, candidate_); })) {
      judge_.note_damage(unreadable(baseline_, candidate_), *damage);
      return false;
    }
    found.borders_aside = numbers_ != nullptr;
    report_.blocks = std::move(found);
    return true;
  }

  /// What collectives gave stands elsewhere where nobody waited for them, and what workers did has
  /// no counterpart where it is in one of the dumps alone.
  bool recorded_alike() {
    const auto has = [](const core::DumpSource& dump, std::string_view fact) {
      return core::environment_fact(dump.manifest(), fact) != nullptr;
    };
    if (has(baseline_, core::kWorkers) != has(candidate_, core::kWorkers)) {
      return refuse(Phrase("workers-in-one-run"));
    }
    const bool differ = has(baseline_, core::kNoSync) != has(candidate_, core::kNoSync);
    if (!differ || !has(baseline_, core::kRanks)) return true;
    return refuse(Phrase("sync-in-one-run"));
  }

  /// Whether the candidate goes on from a checkpoint of the baseline.
  bool meets() {
    ResumePoint point;
    const auto damage = damage_in([&] { point = find_resume(baseline_, candidate_); });
    if (damage) {
      judge_.note_damage(unreadable(baseline_, candidate_), *damage);
      count_as_missing();
      return false;
    }
    if (point.obstacle) return refuse(*std::move(point.obstacle));
    pairing_options_->baseline.from = point.summary.baseline_op;
    pairing_options_->candidate.from = point.summary.candidate_op;
    pairing_options_->candidate.steps_before = point.steps_before;
    report_.resume = point.summary;
    met_ = std::move(point);
    return true;
  }

  /// Floors are about the baseline: what the candidate is, they are there to judge.
  bool holds_noise() {
    if (!configs::uses_noise(options_.spec) || !options_.noise) return true;
    const configs::NoiseFloors& noise = *options_.noise;
    const auto others =
        configs::differences(noise.subject, configs::noise_subject(baseline_.manifest()));
    if (!others.empty()) {
      return refuse(Phrase("floors-of-another-run", {{"file", noise.file}, {"others", others}}));
    }
    if (noise.runs >= configs::kFewestNoiseRuns) return true;
    return refuse(Phrase(
        "floors-of-few-runs",
        {{"file", noise.file}, {"runs", noise.runs}, {"fewest", configs::kFewestNoiseRuns}}));
  }

  /// What is held against the float64 run has to be its like.
  bool holds_fp64() {
    if (!configs::uses_fp64(options_.spec) || !options_.fp64) return true;
    const core::RunManifest& exact = options_.fp64->manifest();
    const core::RunManifest& baseline = baseline_.manifest();
    const auto options = pairing_options_of(baseline, exact, options_.spec);
    std::optional<Phrase> why;
    if (exact.model_digest != baseline.model_digest ||
        exact.model_method != baseline.model_method) {
      why = Phrase("ran-another-model");
    } else if (exact.seed != baseline.seed) {
      why = Phrase("other-seed", {{"seed", exact.seed}, {"baseline", baseline.seed}});
    } else if (!options) {
      why =
          Phrase("other-depth", {{"depth", exact.trace.depth}, {"baseline", baseline.trace.depth}});
    } else {
      why = align_fp64(*options);
    }
    if (!why) return true;
    return refuse(Phrase("not-the-baseline-in-float64",
                         {{"dump", options_.fp64->location()}, {"why", Phrases{*std::move(why)}}}));
  }

  /// Why it cannot be aligned, or nothing.
  std::optional<Phrase> align_fp64(PairingOptions options) {
    options.map = nullptr;  // the candidate's
    if (const auto damage = damage_in([&] { fp64_.emplace(baseline_, *options_.fp64, options); })) {
      judge_.note_damage(unreadable(baseline_, *options_.fp64), *damage);
      return Phrase("is-damaged");
    }
    judge_.rules().set_fp64(&*fp64_);
    return fp64_->matched() == 0 ? std::optional(Phrase("has-no-operator")) : std::nullopt;
  }

  /// @return false
  bool refuse(Phrase why) {
    verdict_.incomparable.push_back(std::move(why));
    count_as_missing();
    return false;
  }

  void count_as_missing() {
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops;
  }

  /// A new process makes in its first step what the other one has had for long: buffers, masks,
  /// caches. Such calls are no divergence: if what they make is not the same, what reads it shows
  /// it.
  void set_aside_first_calls() {
    const auto is_read = [](const core::DumpSource& dump, std::uint32_t op) {
      return dump.op_head(op).op->name == core::kReadRecord;
    };
    const std::uint64_t end = end_of_first_step();
    std::set<std::uint32_t> moved;
    std::set<std::uint32_t> moved_here;
    for (const OpPair& pair : pairing_.moved) {
      moved.insert(pair.candidate);
      moved_here.insert(pair.baseline);
    }
    report_.resume->first_calls =
        std::erase_if(pairing_.candidate.completion, [&](std::uint32_t op) {
          return pairing_.baseline_of[op] == kUnmatched && !moved.contains(op) &&
                 ((op < end && !candidate_.op(op).generator) || is_read(candidate_, op));
        });
    // Whether memory is asked for before somebody reads it is of its history, which ends with a
    // process.
    std::erase_if(pairing_.baseline.completion, [&](std::uint32_t op) {
      return pairing_.candidate_of[op] == kUnmatched && !moved_here.contains(op) &&
             is_read(baseline_, op);
    });
  }

  /// What one run alone does behind the last step, as to evaluate what it has trained, has nothing
  /// to do with what was restored.
  void set_aside_last_calls() {
    if (met_->steps == 0 || met_->goes_on) return;
    std::set<std::uint32_t> moved_here;
    std::set<std::uint32_t> moved_there;
    for (const OpPair& pair : pairing_.moved) {
      moved_here.insert(pair.baseline);
      moved_there.insert(pair.candidate);
    }
    const auto is_alone = [&](bool here) {
      return [this, here, &moved = here ? moved_here : moved_there](std::uint32_t op) {
        const Ops& counterparts = here ? pairing_.candidate_of : pairing_.baseline_of;
        return counterparts[op] == kUnmatched && !moved.contains(op) && is_behind(op, here);
      };
    };
    Ops& ours = pairing_.baseline.completion;
    Ops& theirs = pairing_.candidate.completion;
    const bool here = std::ranges::any_of(ours, is_alone(true));
    if (here && std::ranges::any_of(theirs, is_alone(false))) return;
    const std::uint64_t count =
        here ? std::erase_if(ours, is_alone(true)) : std::erase_if(theirs, is_alone(false));
    if (count == 0) return;
    left_out_.push_back(
        Phrase("left-out-behind-last", {{"operators", count}, {"run", run_field(here)}}));
  }

  /// Whether a record is behind the last step that both runs have made.
  [[nodiscard]] bool is_behind(std::uint64_t op, bool of_baseline) const {
    const std::uint32_t step = (of_baseline ? baseline_ : candidate_).op_head(op).step;
    return (of_baseline ? step : step + met_->steps_before) >= met_->steps;
  }

  /// Of runs of which one makes more steps, what is behind the last that both have made.
  void leave_out_further_steps(PairingOptions& options) {
    if (!met_ || !met_->goes_on) return;
    for (const bool here : {true, false}) {
      std::vector<std::uint64_t> further;
      const std::uint64_t first = here ? report_.resume->baseline_op : report_.resume->candidate_op;
      for (std::uint64_t op = first; op < (here ? baseline_ : candidate_).op_count(); ++op) {
        if (is_behind(op, here)) further.push_back(op);
      }
      if (further.empty()) continue;
      left_out_.push_back(Phrase(
          "left-out-behind-step",
          {{"operators", further.size()}, {"run", run_field(here)}, {"last", met_->steps - 1}}));
      add_sorted(further, (here ? options.baseline : options.candidate).without);
    }
  }

  /// Of the resumed run. Where nobody counts its steps, as without an optimizer of PyTorch, each
  /// has a loss; where there is none either, nothing is of the first.
  [[nodiscard]] std::uint64_t end_of_first_step() const {
    const std::uint64_t first = report_.resume->candidate_op;
    const std::uint64_t count = candidate_.op_count();
    const core::OpRecord of = candidate_.op_head(first);
    std::vector<std::uint64_t> losses;
    for (std::uint64_t op = first; op < count; ++op) {
      const core::OpRecord head = candidate_.op_head(op);
      if (head.lane == of.lane && head.step != of.step) return op;
      if (head.op->name == core::kLossRecord) losses.push_back(op);
    }
    const bool counted = candidate_.op_head(count - 1).step != 0;
    if (counted || losses.size() == 1) return count;
    return losses.empty() ? first : losses[1];
  }

  /// What was compared has been verified with it.
  void verify_the_rest() {
    if (!options_.verify_all) return;
    Pace pace(
        options_, ComparePhase::kVerifying, readable_bytes(baseline_) + readable_bytes(candidate_));
    for (const core::DumpSource* source : {&baseline_, &candidate_}) {
      core::ContentCheck rest;
      rest.threads = options_.spec.threads.value_or(0);
      rest.skip = [&](const core::ContentKey& key) {
        const bool is_checked = judge_.has_checked(*source, key);
        if (is_checked) pace.add(core::content_size(key));
        return is_checked;
      };
      rest.progress = [&](std::uint64_t bytes) { pace.add(bytes); };
      if (const auto damage = damage_in([&] { core::verify_contents(*source, rest); })) {
        judge_.note_damage(source, *damage);
      }
    }
    pace.finish();
  }

  /// Whether it is the batches that differ, or what is computed of them. A run that resumed has
  /// other epochs.
  void compare_loaders() {
    if (options_.spec.resume) return;
    report_.data = compare_data(baseline_data_, candidate_data_);
    report_.findings = data_findings(baseline_data_);
  }

  /// What one recording has in another way than the other is not paired.
  void leave_out(PairingOptions& options) {
    damage_in([&] {  // pairing will say so
      options.baseline.without = operators_of_hidden_steps(baseline_, candidate_);
      options.candidate.without = operators_of_hidden_steps(candidate_, baseline_);
    });
    note_left_out("left-out-optimizers", options);
    if (options_.spec.resume || !baseline_.manifest().is_of_program()) return;
    damage_in([&] {
      DataOrder of_baseline = read_data_order(baseline_);
      candidate_data_ = read_data_order(candidate_);
      baseline_data_ = std::move(of_baseline);
      if (!have_other_workers(baseline_data_, candidate_data_)) return;
      PairingOptions of_loaders;
      of_loaders.baseline.without = operators_of_loaders(baseline_);
      of_loaders.candidate.without = operators_of_loaders(candidate_);
      note_left_out("left-out-loaders", of_loaders);
      add_sorted(of_loaders.baseline.without, options.baseline.without);
      add_sorted(of_loaders.candidate.without, options.candidate.without);
    });
  }

  static void add_sorted(const std::vector<std::uint64_t>& more, std::vector<std::uint64_t>& to) {
    std::vector<std::uint64_t> both;
    std::ranges::set_union(more, to, std::back_inserter(both));
    to = std::move(both);
  }

  void look_for_renames(PairingOptions& options) {
    // Whoever brings a map, or wants places alone, says himself what belongs together.
    if (met_) {
      damage_in([&] {  // pairing will say so
        renames_ = rename_roots(baseline_, candidate_, *met_);
        options.renames = &renames_;
      });
      return;
    }
    if (!options_.spec.map.entries.empty() || options.mode != configs::AlignMode::kKeyed) return;
    damage_in([&] {  // pairing will say so
      renames_ = find_renames(baseline_, candidate_, options);
      options.renames = &renames_;
      if (renames_.empty()) without_modules_ = side_without_modules(baseline_, candidate_);
      options.without_modules = without_modules_.has_value();
    });
  }

  void note_frozen() {
    if (!without_modules_) return;
    report_.warnings.push_back(Phrase("names-no-modules", {{"run", run_field(*without_modules_)}}));
  }

  void note_left_out(std::string_view key, const PairingOptions& options) {
    for (const bool here : {true, false}) {
      const std::size_t operators = (here ? options.baseline : options.candidate).without.size();
      if (operators == 0) continue;
      left_out_.push_back(Phrase(key, {{"operators", operators}, {"run", run_field(here)}}));
    }
  }

  /// False when there is nothing to walk through.
  bool pair() {
    Pace pace(options_, ComparePhase::kAligning, baseline_.op_count() + candidate_.op_count());
    std::vector<std::uint64_t> renamed_tensors;
    PairingOptions pairing_options = pairing_options_.value_or(PairingOptions{});
    pairing_options.pace = &pace;
    if (worlds_ != nullptr) {
      pairing_options.baseline.only = &worlds_->baseline;
      pairing_options.candidate.only = &worlds_->candidate;
    }
    leave_out(pairing_options);
    damage_in([&] { leave_out_further_steps(pairing_options); });  // pairing will say so
    look_for_renames(pairing_options);
    if (!options_.spec.resume) {  // else they are of the first step of each
      report_.named_tensors = differing_named_tensors(baseline_.manifest(),
                                                      candidate_.manifest(),
                                                      NameRewriter(options_.spec.map, &renames_),
                                                      judge_,
                                                      renamed_tensors);
    }
    report_.from_accepted = options_.paired != nullptr;
    const auto damage = damage_in([&] {
      if (numbers_ != nullptr) pairing_options = of_numbers(pairing_options);
      pairing_ = pair_records(baseline_, candidate_, pairing_options);
      if (numbers_ != nullptr) settle_numbers();
      if (options_.spec.order == configs::OperatorOrder::kRelaxed) {
        pair_moved(baseline_, candidate_, pairing_);
      }
      if (report_.resume) {
        set_aside_first_calls();
        set_aside_last_calls();
      }
      if (options_.paired) options_.paired(pairing_.candidate_of);
    });
    if (damage) {
      judge_.note_damage(unreadable(baseline_, candidate_), *damage);
      count_as_missing();
      return false;
    }
    pace.finish();
    const bool both = !pairing_.baseline.ranks.empty() && !pairing_.candidate.ranks.empty();
    if (both && pairing_.baseline.ranks != pairing_.candidate.ranks) {
      return refuse(
          Phrase("rank-sets-differ",
                 {{"baseline", pairing_.baseline.ranks}, {"candidate", pairing_.candidate.ranks}}));
    }
    report_.alignment = pairing_.summary;
    report_.alignment.reordered = pairing_.moved.size();
    report_.alignment.left_out_baseline = pairing_.baseline.nested_left_out;
    report_.alignment.left_out_candidate = pairing_.candidate.nested_left_out;
    if (!met_) append(rename_notes(renames_), report_.warnings);
    note_frozen();
    append(left_out_, report_.warnings);
    report_.name_map = map_use(options_.spec.map, pairing_, renamed_tensors);
    report_.coverage.baseline_ops = pairing_.baseline.completion.size();
    report_.coverage.candidate_ops = pairing_.candidate.completion.size();
    verdict_.matched = pairing_.matched;
    report_.coverage.missing_in_candidate = report_.coverage.baseline_ops - pairing_.matched;
    report_.coverage.missing_in_baseline = report_.coverage.candidate_ops - pairing_.matched;
    return true;
  }

  /// Counts operators, as they are paired by `options`. Of a refactored program modules are called
  /// otherwise.
  PairingOptions of_numbers(const PairingOptions& options) {
    if (pairing_options_) {
      Pairing operators = pair_records(baseline_, candidate_, options);
      report_.numbers->operators = changed_operators(baseline_, candidate_, operators);
      rewritten_ = std::move(operators.rewritten);
    }
    PairingOptions own;
    own.map = options.map;
    own.baseline.only = &numbers_->baseline;
    own.candidate.only = &numbers_->candidate;
    own.without_modules = true;
    return own;
  }

  /// What calls returned is paired whatever records are compared.
  void settle_numbers() {
    if (!numbers_->summary.judges(configs::NumberKind::kResults)) {
      pairing_.returned.clear();
      pairing_.baseline.returned.clear();
      pairing_.candidate.returned.clear();
    }
    if (!rewritten_.empty()) pairing_.rewritten = std::move(rewritten_);
  }

  /// Each is a reason, and the first of a run is why that is damaged.
  void take_damage() {
    for (const auto& [sentence, source] : judge_.damage()) {
      verdict_.damage.push_back(Phrase("damaged", {{"what", sentence}}));
      if (source != &baseline_ && source != &candidate_) continue;
      RunSummary& run = report_.runs.at(source == &baseline_ ? 0 : 1);
      if (std::exchange(run.status, "damaged") != "damaged") run.message = sentence;
    }
  }

  void take_obstacles() {
    Obstacles found = obstacles_of(baseline_.manifest(), candidate_.manifest());
    append(std::move(found.notes), report_.warnings);
    verdict_.obstacles = std::move(found.reasons);
  }

  void finish() {
    if (fp64_ && !fp64_->damage().empty()) {
      judge_.note_damage(options_.fp64.get(), fp64_->damage());
    }
    take_damage();
    Phrases warnings = observations_.non_finite();
    append(std::exchange(report_.warnings, {}), warnings);
    append(observations_.warnings(baseline_.manifest(), candidate_.manifest()), warnings);
    append(missing_references(report_.runs), warnings);
    report_.warnings = std::move(warnings);
    if (auto unwritten = observations_.unwritten()) {
      report_.findings.push_back(*std::move(unwritten));
    }
    judge_growth(options_.spec.max_growth, report_);
    check_coverage(report_.coverage, verdict_.matched);
    take_obstacles();
    decide(verdict_, report_);
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const CompareOptions& options_;
  const CommonOfWorlds* worlds_;
  const NumberRecords* numbers_;
  std::vector<std::uint64_t> rewritten_;  ///< beside numbers, by operators: see Pairing
  TensorJudge judge_{baseline_, candidate_, options_};
  std::optional<PairingOptions> pairing_options_;
  std::optional<ResumePoint> met_;  ///< of a run that resumed
  ModuleRenames renames_;
  DataOrder baseline_data_;
  DataOrder candidate_data_;
  Phrases left_out_;                     ///< operators that are not paired, each side for a reason
  std::optional<bool> without_modules_;  ///< of the baseline, or of the candidate
  Pairing pairing_;
  std::optional<Fp64Reference> fp64_;
  Observations observations_;
  VerdictInput verdict_;
  Report report_;
};

}  // namespace

core::ExitCode exit_code_of(const Report& report) noexcept {
  using enum core::ExitCode;
  // By Status.
  constexpr std::array kCodes{kReproducible,
                              kNotComparable,
                              kDivergence,
                              kDumpUnusable,
                              kDumpUnusable,
                              kNotComparable,
                              kNotComparable,
                              kRunFailed,
                              kDivergence,
                              kNotComparable,
                              kNotComparable};
  static_assert(kCodes.size() == static_cast<std::size_t>(Status::kNoBaseline) + 1);
  return kCodes[static_cast<std::size_t>(report.status)];
}

namespace {

/// The first records of a dump, as `see` gives them.
class SeenSource final : public core::DumpSource {
 public:
  using See = std::function<core::OpRecord(std::uint64_t index)>;

  /// @param dump  borrowed
  SeenSource(const core::DumpSource& dump, std::uint64_t count, See see)
      : dump_(dump), count_(count), see_(std::move(see)) {}

  /// Sees no more of its blocks and parameters than that.
  void cut(std::uint64_t blocks, std::uint64_t parameters) {
    blocks_ = blocks;
    parameters_ = parameters;
  }
  [[nodiscard]] std::uint64_t block_count() const override {
    return std::min(dump_.block_count(), blocks_);
  }
  [[nodiscard]] core::BlockRow block(std::uint64_t position) const override {
    return dump_.block(position);
  }
  [[nodiscard]] std::uint64_t parameter_count() const override {
    return std::min(dump_.parameter_count(), parameters_);
  }
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t position) const override {
    return dump_.parameter(position);
  }

  [[nodiscard]] const std::string& location() const override { return dump_.location(); }
  [[nodiscard]] const core::RunManifest& manifest() const override { return dump_.manifest(); }
  [[nodiscard]] std::uint64_t op_count() const override { return count_; }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override {
    return dump_.op_head(index);
  }
  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override { return see_(index); }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return dump_.has_content(key);
  }
  [[nodiscard]] std::optional<core::ContentSlice> find_slice(
      const core::ContentKey& key) const override {
    return dump_.find_slice(key);
  }
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    dump_.read_content(key, into);
  }
  [[nodiscard]] std::string missing_reference() const override { return dump_.missing_reference(); }
  [[nodiscard]] std::unique_ptr<core::ContentParts> open_content(
      const core::ContentKey& key) const override {
    return dump_.open_content(key);
  }
  [[nodiscard]] std::uint64_t content_count() const override { return dump_.content_count(); }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t position) const override {
    return dump_.content(position);
  }

 private:
  const core::DumpSource& dump_;
  std::uint64_t count_;
  See see_;
  std::uint64_t blocks_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t parameters_ = std::numeric_limits<std::uint64_t>::max();
};

SeenSource with_whole_parameters(const core::DumpSource& dump) {
  return {dump, dump.op_count(), [&dump](std::uint64_t i) { return whole_parameters(dump.op(i)); }};
}

/// What made a loss was not compared: that nothing before it differs proves nothing.
void explain_losses(Report& report) {
  const auto explain = [](OpDivergence& op) {
    const core::OpRecord& record = shown_record(op);
    if (!record.op || record.op->name != core::kLossRecord) return;
    op.relation = Relation::kPropagated;
    op.cause = {
        CauseKind::kUnexplained, {Phrase("not-compared")}, Phrase("do-hold-against-as-many")};
  };
  if (report.first_divergence) explain(*report.first_divergence);
  std::ranges::for_each(report.divergences, explain);
  std::erase_if(report.origins, [](const Origin& origin) {
    return origin.record.op && origin.record.op->name == core::kLossRecord;
  });
  report.origins_total = report.origins.size();
}

/// Of runs on other numbers of ranks: what is equal says nothing of what was not compared.
Report compare_worlds(const core::DumpSource& baseline,
                      const core::DumpSource& candidate,
                      const CompareOptions& options,
                      CommonOfWorlds common) {
  const SeenSource here = with_whole_parameters(baseline);
  const SeenSource there = with_whole_parameters(candidate);
  Report report = Comparison(here, there, options, &common).run();
  const bool equal = report.status == Status::kReproducible;
  if (equal) report.status = Status::kNotComparable;
  if (equal || report.status == Status::kNothingCompared) {
    report.reasons = std::move(common.said);
  } else {
    explain_losses(report);
    append(std::exchange(report.warnings, std::move(common.said)), report.warnings);
  }
  return report;
}

/// Judges the records of numbers alone.
Report compare_numbers(const core::DumpSource& baseline,
                       const core::DumpSource& candidate,
                       const CompareOptions& options,
                       const NumberRecords& numbers) {
  const auto seen = [&](const core::DumpSource& dump) {
    return SeenSource(dump, dump.op_count(), [&](std::uint64_t op) {
      return with_numbers(dump.op(op), numbers.summary.judged);
    });
  };
  SeenSource here = seen(baseline);
  SeenSource there = seen(candidate);
  if (!numbers.summary.judges(configs::NumberKind::kParameters)) {
    for (SeenSource* source : {&here, &there}) source->cut(source->block_count(), 0);
  }
  Report report = Comparison(here, there, options, nullptr, &numbers).run();
  explain_numbers(report);
  const bool lacks_parameters = report.blocks && report.blocks->parameters == 0 &&
                                numbers.summary.judges(configs::NumberKind::kParameters);
  if (lacks_parameters && report.status == Status::kReproducible) {
    report.status = Status::kNotComparable;
    report.reasons.emplace_back("parameters-read-in-neither");
  }
  return report;
}

Report compare_all(const core::DumpSource& baseline,
                   const core::DumpSource& candidate,
                   const CompareOptions& options) {
  if (!options.spec.resume && !ran_on_as_many_ranks(baseline, candidate)) {
    CommonOfWorlds common;
    const auto damage = damage_in([&] { common = common_of_worlds(baseline, candidate); });
    if (!damage) return compare_worlds(baseline, candidate, options, std::move(common));
  }
  if (options.spec.numbers) {
    NumberRecords numbers;
    const auto damage =
        damage_in([&] { numbers = find_numbers(baseline, candidate, *options.spec.numbers); });
    if (!damage) return compare_numbers(baseline, candidate, options, numbers);
  }
  return Comparison(baseline, candidate, options).run();
}

bool is_partial(const core::DumpSource& dump) { return dump.manifest().trace.partial.has_value(); }

/// What a partial dump and its counterpart have in common.
struct Scope {
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< no op from here on
  std::uint64_t blocks = end;
  std::uint64_t parameters = end;
  std::set<std::uint64_t> unfinished;
};

/// The first operators of a dump. Those that one side never left have no values on either: they
/// are skipped, whatever the other side holds. Both are borrowed.
SeenSource prefix_of(const core::DumpSource& dump, const Scope& scope) {
  return {dump, std::min(dump.op_count(), scope.end), [&](std::uint64_t index) {
            if (!scope.unfinished.contains(index)) return dump.op(index);
            core::OpRecord record = dump.op_head(index);
            core::TensorRecord& output = record.tensors.emplace_back();
            output.role = core::TensorRole::kOutput;
            output.state = core::ContentState::kExcluded;
            return record;
          }};
}

Scope common_scope(const core::DumpSource& baseline, const core::DumpSource& candidate) {
  Scope scope;
  for (const core::DumpSource* dump : {&baseline, &candidate}) {
    if (!is_partial(*dump)) continue;
    scope.end = std::min(scope.end, dump->op_count());
    scope.blocks = std::min(scope.blocks, dump->block_count());
    scope.parameters = std::min(scope.parameters, dump->parameter_count());
    const std::vector<std::uint64_t>& unfinished = dump->manifest().trace.partial->unfinished;
    scope.unfinished.insert(unfinished.begin(), unfinished.end());
  }
  return scope;
}

/// `reproducible up to op 41: 42 of 42 operators bit-identical; nothing beyond was compared`.
Phrase how_far(const Report& report) {
  if (report.blocks) return Phrase("blocks-up-to", {{"calls", report.blocks->compared}});
  const Coverage& coverage = report.coverage;
  const std::uint64_t end = std::max(coverage.baseline_ops, coverage.candidate_ops);
  return Phrase("reproducible-up-to",
                {{"last", end - 1},
                 {"fine", coverage.equal + coverage.within_policy},
                 {"operators", end},
                 {"bit_identical", coverage.within_policy == 0}});
}

void mark(RunSummary& run, const core::DumpSource& dump, Phrases& warnings) {
  if (!is_partial(dump)) return;
  const core::PartialTrace& partial = *dump.manifest().trace.partial;
  if (partial.stopped) {
    warnings.push_back(Phrase("process-stopped", {{"dump", dump.location()}}));
    return;
  }
  if (run.status == "complete") run.status = "partial";
  run.last_op = partial.last;
  run.message = partial.reason;
  warnings.insert(
      warnings.begin(),
      Phrase("partial-recording", {{"dump", dump.location()}, {"why", partial.reason}}));
}

Report compare_common_prefix(const core::DumpSource& baseline,
                             const core::DumpSource& candidate,
                             const CompareOptions& options) {
  Scope scope = common_scope(baseline, candidate);
  // Other operators may make them: how far both have come is not told by op indices.
  if (options.spec.numbers) scope.end = std::numeric_limits<std::uint64_t>::max();
  SeenSource here = prefix_of(baseline, scope);
  SeenSource there = prefix_of(candidate, scope);
  for (SeenSource* source : {&here, &there}) source->cut(scope.blocks, scope.parameters);
  Report report = compare_all(here, there, options);
  mark(report.runs[0], baseline, report.warnings);
  mark(report.runs[1], candidate, report.warnings);
  const bool is_cut = is_cut_short(baseline) || is_cut_short(candidate);
  if (is_cut && report.status == Status::kReproducible) {
    report.status = Status::kPartial;
    if (!report.numbers) report.reasons.insert(report.reasons.begin(), how_far(report));
    report.mend = Phrase("do-record-to-end");
  }
  return report;
}

}  // namespace

bool is_cut_short(const core::DumpSource& dump) {
  const std::optional<core::PartialTrace>& partial = dump.manifest().trace.partial;
  return partial && !partial->stopped;
}

Report compare(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const CompareOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto how =
      is_partial(baseline) || is_partial(candidate) ? compare_common_prefix : compare_all;
  Report report = how(baseline, candidate, options);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace repro_check::comparators
