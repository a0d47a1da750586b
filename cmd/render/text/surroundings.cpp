// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"
#include "comparators/report/report.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using comparators::Coverage;
using comparators::ExpectedOutcome;
using comparators::FlakyOp;
using comparators::OpRepeatability;
using comparators::RandomDraws;
using comparators::RepeatSummary;
using comparators::ReturnedValues;

std::string gaps_text(const Coverage& c) {
  std::string text = fmt::format("{} missing, {} skipped",
                                 format_count(c.missing_in_baseline + c.missing_in_candidate),
                                 format_count(c.skipped));
  return c.not_judged == 0 ? text
                           : text + fmt::format(", {} not judged", format_count(c.not_judged));
}

std::string of_text(const Coverage& c) {
  if (c.baseline_ops == c.candidate_ops) {
    return fmt::format(
        "{} of {}", format_count(c.compared), format_count(c.baseline_ops, "operator"));
  }
  return fmt::format("{} of {} | {} operators",
                     format_count(c.compared),
                     format_count(c.baseline_ops),
                     format_count(c.candidate_ops));
}

std::string nothing_text(const Report& report) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) {
    const bool is_known = run.status == "complete" || run.status == "failed";
    const std::string_view state = run.status == "complete" ? "whole" : "not whole";
    texts.push_back(fmt::format("{} is {}", run.name, is_known ? state : run.status));
  }
  return fmt::format("nothing: {}", fmt::join(texts, ", "));
}

// Runs that left no whole dump have no operators to count.
bool is_nothing(const Report& report) {
  const Coverage& c = report.coverage;
  const bool has_gap = std::any_of(report.runs.begin(), report.runs.end(), [](const auto& run) {
    return run.status != "complete";
  });
  return has_gap && c.compared == 0 && c.baseline_ops == 0;
}

std::string compared_text(const Report& report) {
  const Coverage& c = report.coverage;
  if (report.status == Status::kObserverEffect) {
    return "nothing: what recording changes cannot be judged by recordings of it";
  }
  if (is_nothing(report)) return nothing_text(report);
  if (report.status == Status::kReproducible) {
    return fmt::format("{}, {}, {}; {}",
                       format_count(c.compared, "operator"),
                       format_count(c.tensors, "tensor"),
                       format_bytes(c.bytes),
                       gaps_text(c));
  }
  if (report.status == Status::kDiverged && c.compared > 0 && c.equal == c.compared) {
    const bool is_parted = report.kind == DivergenceKind::kControlFlow;
    return fmt::format("{}, all bit-identical; {}",
                       is_parted ? of_text(c) : format_count(c.compared, "operator"),
                       gaps_text(c));
  }
  if (report.status != Status::kDiverged && c.equal > 0) {
    return fmt::format("{}, {} bit-identical; {}", of_text(c), format_count(c.equal), gaps_text(c));
  }
  return fmt::format("{}; {}", of_text(c), gaps_text(c));
}

// Where it is the verdict, how much of the streams was left over; where it is a consequence, where.
std::string parting_text(const Report& report) {
  if (!report.control_flow || report.kind == DivergenceKind::kMissing) return {};
  const comparators::ControlFlow& parting = *report.control_flow;
  if (report.kind != DivergenceKind::kControlFlow) {
    const auto& last = parting.last_common_baseline;
    return last ? fmt::format("; control flow parted after op {}", *last) : "";
  }
  return fmt::format("; {}; {} | {} unmatched",
                     parting.rejoined ? "rejoined" : "never rejoined",
                     format_count(parting.unmatched_baseline),
                     format_count(parting.unmatched_candidate));
}

// Whether the policy let it pass, which is known where the list has every pair that failed.
bool has_passed(const Report& report, std::uint64_t op) {
  const Coverage& c = report.coverage;
  std::uint64_t listed = 0;
  bool is_listed = false;
  for (const OpDivergence* entry : every_divergence(report)) {
    const bool is_pair = entry->baseline_index && entry->candidate_index;
    if (!is_pair || core::is_returned(shown_record(*entry))) continue;
    ++listed;
    is_listed = is_listed || entry->baseline_index == op;
  }
  return c.within_policy > 0 && c.not_judged == 0 && listed == c.diverged + c.mismatched &&
         !is_listed;
}

// The first difference of bits, where it is not what the verdict names.
std::string first_bit_text(const Report& report) {
  const auto& first = report.first_bit_difference;
  const bool is_verdict =
      first && report.first_divergence && report.first_divergence->baseline_index == first;
  if (!first || is_verdict) return "";
  return fmt::format("op {} is the first that is not bit-identical{}",
                     *first,
                     has_passed(report, *first) ? "; it passed" : "");
}

// Where `dump.max_bytes` was reached, and how many operators that leaves to their digests.
std::string limit_text(const Report& report) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) {
    const core::TraceSummary& trace = run.manifest.trace;
    if (!trace.bytes_limit_reached_at || *trace.bytes_limit_reached_at >= trace.operators) continue;
    texts.push_back(
        fmt::format("the last {} of {}",
                    format_count(trace.operators - *trace.bytes_limit_reached_at, "operator"),
                    run.name));
  }
  if (texts.empty()) return {};
  return fmt::format("of {} not all stored (dump.max_bytes); there digests alone decided",
                     fmt::join(texts, " and "));
}

// A recording of a window has no values elsewhere, one that refers to another dump may have them
// where nobody looked: there digests alone decided.
std::string values_text(const Report& report) {
  std::vector<std::string> windows;
  for (const RunSummary& run : report.runs) {
    const std::string text = core::describe(run.manifest.trace.keep_ops);
    if (!text.empty() && std::find(windows.begin(), windows.end(), text) == windows.end()) {
      windows.push_back(text);
    }
  }
  std::vector<std::string> sentences;
  if (!windows.empty()) {
    sentences.push_back(
        fmt::format("of {} alone; elsewhere digests decided", fmt::join(windows, " | ")));
  }
  for (const RunSummary& run : report.runs) {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) continue;
    sentences.push_back(fmt::format("{} of {} in a dump that was not given; there digests decided",
                                    format_count(run.manifest.trace.reference->contents, "content"),
                                    run.name));
  }
  if (report.coverage.sliced != 0) {
    sentences.push_back(
        fmt::format("of {} a slice alone; the rest of what differs was not measured",
                    format_count(report.coverage.sliced, "tensor")));
  }
  if (std::string limit = limit_text(report); !limit.empty()) sentences.push_back(limit);
  return fmt::format("{}", fmt::join(sentences, "; "));
}

// Patterns that left operators out of a recording; those of one run stand for both where they
// agree.
std::string filters_text(const Report& report) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) {
    const core::TraceSummary& trace = run.manifest.trace;
    std::string text;
    if (!trace.include.empty()) text = fmt::format("only {}", fmt::join(trace.include, ", "));
    if (!trace.exclude.empty()) {
      text += fmt::format("{}without {}", text.empty() ? "" : ", ", fmt::join(trace.exclude, ", "));
    }
    if (!text.empty() && std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
  if (texts.empty()) return {};
  return escape_name(fmt::format("{}", fmt::join(texts, " | "))) +
         "; what that leaves out was not compared, and counts as skipped";
}

// How many pairs another name hid, and what each line of the map found.
std::string map_text(const Report& report) {
  const comparators::NameMapUse& map = report.name_map;
  if (map.entries.empty()) return {};
  std::vector<std::string> texts;
  for (const comparators::NameMapUse::Entry& entry : map.entries) {
    std::string text = fmt::format("line {} ({} {} -> {}): {}",
                                   entry.line,
                                   entry.kind,
                                   entry.pattern,
                                   entry.replacement,
                                   format_count(entry.operators, "operator"));
    if (entry.tensors != 0) text += ", " + format_count(entry.tensors, "weight");
    texts.push_back(std::move(text));
  }
  return fmt::format("{} matched by names in {}; {}",
                     format_count(report.alignment.map, "operator"),
                     map.file,
                     fmt::join(texts, "; "));
}

// What each rule judged, where there are any.
std::string rules_text(const Report& report) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < report.rules.size(); ++i) {
    const comparators::RuleUse& rule = report.rules[i];
    texts.push_back(fmt::format(
        "{} ({}) {}: {}", i, rule.match, rule.policy, format_count(rule.tensors, "tensor")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// What `--check-observer` found, run by run; what recording changed is the verdict already.
std::string observer_text(const Report& report) {
  using Outcome = comparators::ObserverFinding::Outcome;
  std::vector<std::string> texts;
  for (const comparators::ObserverFinding& finding : report.observer) {
    const std::string& run = finding.run;
    const std::string outputs = format_count(finding.outputs, "output");
    texts.push_back(
        finding.outcome == Outcome::kUnchanged
            ? fmt::format("recording left {} of {} bit-identical", outputs, run)
        : finding.outcome == Outcome::kChanged
            ? fmt::format(
                  "recording {} at level {} changed output {}", run, finding.level, finding.output)
            : fmt::format("{} not judged: {}", run, finding.detail));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void add_differences(Page& page, const Report& report, const Detail& detail) {
  std::vector<std::string> texts;
  for (const auto& [pointer, baseline, candidate, affects_numbers] : report.differences) {
    if (!detail.everything && !affects_numbers) continue;
    const std::string name = pointer == "threads.intra_op" ? "threads" : pointer;
    texts.push_back(fmt::format("{} {} -> {}", name, baseline, candidate));
  }
  const std::size_t shown = std::min(detail.items, texts.size());
  page.list("differ", texts, shown);
  const std::size_t left = report.differences.size() - shown;
  if (shown != 0 || left == 0) return page.left_out(left, "-v");
  const std::string settings = format_count(left, "setting");
  page.add("differ", Line(settings + " without effect on numbers: -v", Role::kHint));
}

// Tensors the runs were given that differ without being what the verdict is about.
void add_given(Page& page, const Report& report, const Detail& detail) {
  const auto& named = report.named_tensors;
  const bool is_shown = report.kind == DivergenceKind::kWeights ||
                        report.kind == DivergenceKind::kInputs || detail.everything;
  if (named.empty() || is_shown) return;
  const bool is_input = named.front().kind == core::NamedTensorKind::kInput;
  const std::string tail =
      named.size() > 1 ? fmt::format(" and {} more differ: -v", format_count(named.size() - 1))
                       : std::string(" differs: -v");
  page.prose("given", (is_input ? "input " : "") + named.front().name + tail);
}

void add_warnings(Page& page, const Report& report, const Detail& detail) {
  const std::vector<std::string> notes = non_finite_notes(report);
  const auto is_note = [&](const std::string& text) {
    return std::ranges::find(notes, text) != notes.end();
  };
  const std::size_t total = report.warnings.size();
  std::size_t shown = std::min(detail.items, total);
  while (shown < total && is_note(report.warnings[shown])) ++shown;
  page.list("warning", report.warnings, shown);
  page.left_out(total - shown, "-v");
}

std::string mend_text(const Report& report) {
  const bool has_cause = report.status == Status::kDiverged && report.first_divergence;
  if (!report.mend.empty() || !has_cause) return report.mend;
  return report.first_divergence->cause.advice;
}

/// How little two runs that agree prove, said beside every pass of a pair.
std::string pair_text(const Report& report) {
  constexpr double kShare = 0.1;
  if (report.status != Status::kReproducible || report.repeat) return {};
  return fmt::format("; 2 runs agree ({} would show 1 in 10)",
                     comparators::runs_needed(kShare).value());
}

std::string seeds_text(const RandomDraws& draws) {
  if (draws.seeds.size() == 1) return fmt::format("seed {}", draws.seeds.front());
  const bool is_all = draws.seeds.size() < RandomDraws::kMostSeeds;
  return fmt::format("seeds {}{}", fmt::join(draws.seeds, ", "), is_all ? "" : " and others");
}

std::string holdings(const ReturnedValues& returned) {
  std::vector<std::string> parts;
  if (returned.tensors != 0) parts.push_back(format_count(returned.tensors, "tensor"));
  if (returned.others != 0) parts.push_back(format_count(returned.others, "other value"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string differing(const ReturnedValues& returned) {
  const std::uint64_t differ = returned.diverged + returned.missing;
  std::string text = returned_amount(*returned.first);
  if (returned.first->relation == Relation::kPropagated) {
    text += "; " + returned.first->cause.evidence;
  }
  if (returned.compared > 1) {
    text += fmt::format("; {} of {} differ",
                        format_count(differ),
                        format_count(returned.compared + returned.missing, "call"));
  }
  return text;
}

std::string agreeing(const ReturnedValues& returned) {
  std::vector<std::string> parts;
  for (const auto& [count, how] : {std::pair(returned.equal, "bit-identical"),
                                   std::pair(returned.within_policy, "within policy"),
                                   std::pair(returned.skipped, "not compared"),
                                   std::pair(returned.not_judged, "not judged")}) {
    if (count != 0) parts.push_back(format_count(count, "call") + " " + how);
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  const std::string what = holdings(returned);
  return what.empty() ? text : fmt::format("{} ({})", text, what);
}

std::string shown_changes(const std::vector<baselines::Change>& changes, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < changes.size() && i < most; ++i) {
    const auto& [name, accepted, now] = changes[i];
    text += fmt::format("{}{} {} -> {}", i == 0 ? "" : ", ", name, accepted, now);
  }
  if (changes.size() > most) text += fmt::format(" and {} more", changes.size() - most);
  return text;
}

std::string baseline_text(const GateOutcome& gate) {
  switch (gate.baseline) {
    case BaselineState::kNotAsked:
      return gate.runs_agree ? "" : "not asked: the runs do not agree with each other";
    case BaselineState::kSame:
      return gate.file + ": as accepted";
    case BaselineState::kRefresh:
      return gate.file + ": results as accepted; it may be refreshed with `gate accept`";
    case BaselineState::kStale:
    case BaselineState::kDiffers:
      return gate.file + ": " + gate.summary;
    case BaselineState::kMissing:
      return "none: " + gate.file;
    case BaselineState::kDamaged:
      return gate.file + ": cannot be read";
    case BaselineState::kNoKey:
      break;
  }
  return "not asked: no platform key";
}

std::string expected_text(const ExpectedOutcome& entry) {
  std::string text = fmt::format("{}: {}", entry.match, word_of(entry.what));
  if (entry.operators > 0) text += fmt::format(", {}", format_count(entry.operators, "operator"));
  if (!entry.detail.empty()) text += ", " + entry.detail;
  return text + fmt::format("; until {}, {}", entry.expires, entry.owner);
}

enum class Bound { kLower, kUpper };

// Two digits, and never rounded to promise more than is known.
std::string percent_text(double share, Bound bound) {
  constexpr double kHundred = 100;
  const double percent = share * kHundred;
  if (percent <= 0 || percent >= kHundred) return fmt::format("{:.0f} %", percent);
  const double unit = std::pow(10.0, std::floor(std::log10(percent)) - 1);
  const double steps = percent / unit;
  const double whole = bound == Bound::kLower ? std::floor(steps) : std::ceil(steps);
  return fmt::format("{:.6g} %", whole * unit);
}

// What a pass of so many runs leaves open, and how many runs would leave less.
std::string bound_text(std::uint64_t runs) {
  std::string text =
      fmt::format("{} runs agree: at 95 % confidence the next one differs with a chance below {}",
                  format_count(runs),
                  percent_text(comparators::undetected_share(runs - 1), Bound::kUpper));
  for (const std::uint64_t odds : std::array<std::uint64_t, 4>{10, 20, 100, 1000}) {
    const auto needed = comparators::runs_needed(1.0 / static_cast<double>(odds));
    if (!needed || *needed <= runs) continue;
    return text + fmt::format("; {} runs show what happens once in {}",
                              format_count(*needed),
                              format_count(odds));
  }
  return text;
}

std::string differing_text(const RepeatSummary& repeat) {
  const comparators::Interval chance = repeat.chance();
  const std::string& first = repeat.runs.front().name;
  std::string text =
      fmt::format("{} of {} runs differ from {}: a chance of {} to {} (95 % confidence)",
                  format_count(repeat.differing),
                  format_count(repeat.judged),
                  first,
                  percent_text(chance.low, Bound::kLower),
                  percent_text(chance.high, Bound::kUpper));
  if (repeat.first_is_odd() && repeat.judged > 1) {
    text += fmt::format("; more than half, so {} is itself the odd one", first);
  }
  return text;
}

std::string flaky_text(const FlakyOp& op, bool everything) {
  std::string text = fmt::format("{}: {} results in {} runs ({})",
                                 op_line(op.index, op.record).raw(),
                                 op.counts.size(),
                                 op.runs(),
                                 fmt::join(op.counts, ", "));
  if (op.l2_rel) text += fmt::format(", l2 rel {}", format_error(*op.l2_rel));
  if (op.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*op.ulp_max));
  if (everything) {
    text += fmt::format(", disagreement {:.4g}, differs from the first with {} to {}",
                        op.disagreement,
                        percent_text(op.differs.low, Bound::kLower),
                        percent_text(op.differs.high, Bound::kUpper));
  }
  return text;
}

void add_ops(Page& page, const OpRepeatability& ops, const Detail& detail) {
  if (ops.flaky == 0) {
    page.prose("",
               fmt::format("{} stable in {} runs, {} not assessed",
                           format_count(ops.assessed, "operator"),
                           format_count(ops.runs),
                           format_count(ops.not_assessed)));
    return;
  }
  std::vector<std::string> texts;
  for (const FlakyOp& op : ops.ops) texts.push_back(flaky_text(op, detail.everything));
  const bool is_cut = detail.items < texts.size();
  page.list("flaky", texts, detail.items);
  page.prose("",
             fmt::format("{} of {} gave more than one result for equal inputs{}",
                         format_count(ops.flaky),
                         format_count(ops.assessed, "operator"),
                         is_cut ? ": -v lists them" : ""));
}

void add_pass(Page& page, std::string_view label, const Report& pass) {
  page.prose(label, verdict_line(pass).raw() + "; in " + dumps_text(pass));
}

/// Divergent operators by relation; what is a mismatch counts as an origin.
using Counts = std::map<Relation, std::uint64_t>;

// What lies deeper is one module: a path of a forged dump may be all dots.
constexpr std::size_t kMostLevels = 256;

// Every enclosing module holds what its children hold, so that the tree reads from the top.
std::map<std::string, Counts> counts_by_module(const Report& report) {
  std::map<std::string, Counts> modules;
  for (const OpDivergence* op : every_divergence(report)) {
    const Relation relation =
        op->relation == Relation::kMismatch ? Relation::kOrigin : op->relation;
    const std::string path(module_of(shown_record(*op)));
    ++modules[""][relation];
    if (path.empty()) continue;
    std::size_t dot = path.find('.');
    for (std::size_t level = 1; dot != std::string::npos && level < kMostLevels; ++level) {
      ++modules[path.substr(0, dot)][relation];
      dot = path.find('.', dot + 1);
    }
    ++modules[path][relation];
  }
  return modules;
}

/// `1 origin, 3 propagated`
std::string tally_text(const Counts& counts) {
  std::vector<std::string> texts;
  for (const auto& [relation, number] : counts) {
    const bool are_origins = relation == Relation::kOrigin && number != 1;
    texts.push_back(fmt::format("{} {}{}", number, word_of(relation), are_origins ? "s" : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void add_modules(Page& page, const Report& report) {
  constexpr std::size_t kDeepest = 12;
  bool is_first = true;
  for (const auto& [path, counts] : counts_by_module(report)) {
    const auto depth = static_cast<std::size_t>(std::ranges::count(path, '.'));
    const std::size_t indent = path.empty() ? 0 : 2 * std::min(depth + 1, kDeepest);
    const std::string last = path.substr(path.find_last_of('.') + 1);
    Line line(std::string(indent, ' '));
    line.put(path.empty() ? "(model)" : last, Role::kPlace);
    page.add(is_first ? "modules" : "", line.put("  " + tally_text(counts)));
    is_first = false;
  }
}

std::string used_text(const std::vector<core::Setting>& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &core::Setting::name);
  return found == settings.end() ? "(not recorded)" : found->used;
}

// One line a setting of either run: equal values once, others as `baseline -> candidate`.
void add_settings(Page& page, const Report& report) {
  if (report.runs.size() < 2) return;
  const auto& baseline = report.runs[0].manifest.settings;
  const auto& candidate = report.runs[1].manifest.settings;
  std::vector<std::string> names;
  for (const auto* settings : {&baseline, &candidate}) {
    for (const auto& setting : *settings) {
      if (std::ranges::find(names, setting.name) == names.end()) names.push_back(setting.name);
    }
  }
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string left = used_text(baseline, name);
    const std::string right = used_text(candidate, name);
    texts.push_back(fmt::format(
        "{} {}{}{}", name, left, left == right ? "" : " -> ", left == right ? "" : right));
  }
  page.list("settings", texts);
}

void add_runs(Page& page, const Report& report) {
  for (const auto& run : report.runs) {
    const auto& m = run.manifest;
    page.prose(&run == report.runs.data() ? "runs" : "",
               fmt::format("{}: {}, device {}, seed {}, determinism {}, dropout {}, rng {}, {}",
                           run.name,
                           run.location.empty() ? run.status : run.location,
                           m.device,
                           m.seed,
                           m.determinism,
                           m.disable_dropout ? "off" : "as the model has it",
                           m.rng,
                           format_seconds(m.seconds)));
  }
}

/// What a compiler has put into regions counts as no operator.
std::string fused_text(const Coverage& c) {
  if (c.fused_baseline + c.fused_candidate == 0) return {};
  const std::string count =
      c.fused_baseline == c.fused_candidate
          ? format_count(c.fused_baseline)
          : fmt::format("{} | {}", format_count(c.fused_baseline), format_count(c.fused_candidate));
  return fmt::format("; {} inside compiled regions seen by nobody, compared at their borders",
                     count);
}

/// A pass is about what was recorded, and of a program that may be a part.
std::string part_text(const Report& report) {
  if (report.runs.empty()) return {};
  const core::TraceSummary& trace = report.runs.front().manifest.trace;
  std::string text =
      trace.only.empty() ? "" : "recorded of the program: " + escape_name(trace.only);
  if (trace.optimizer == core::kOptimizerState) {
    text += text.empty() ? "" : "; ";
    text += "of the optimizer's operators their arguments, and once a step what they left";
  }
  return text;
}

}  // namespace

void add_coverage(Page& page, const Report& report, const Detail& detail) {
  // What stands beside the policy in one paragraph.
  constexpr std::size_t kOneLine = 67;
  std::string compared = compared_text(report);
  compared += parting_text(report) + fused_text(report.coverage);
  const std::string policy = is_nothing(report) || report.status == Status::kObserverEffect
                                 ? ""
                                 : escape_name(report.policy);
  const std::string joined = policy.empty() ? compared : compared + "; policy " + policy;
  const bool is_one_line = report.status != Status::kReproducible && columns(joined) <= kOneLine;
  page.prose("compared", is_one_line ? joined : compared);
  if (!is_one_line) page.prose("policy", policy + pair_text(report));
  page.prose("part", part_text(report));
  page.prose("training", training_text(report));
  page.prose("program", program_text(report));
  page.prose("random", random_text(report));
  page.prose("map", map_text(report));
  page.prose("rules", rules_text(report));
  page.prose("filters", filters_text(report));
  page.prose("values", values_text(report));
  add_differences(page, report, detail);
  add_given(page, report, detail);
  page.prose("observer", observer_text(report));
  page.prose("first bit", first_bit_text(report));
  add_warnings(page, report, detail);
  page.prose("mend", mend_text(report), Role::kHint);
}

void add_unfinished(Page& page, const Report& report, const std::vector<RunLog>& logs) {
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunSummary& run = report.runs[i];
    if (run.status == "complete") continue;
    if (run.last_op) {
      page.prose("recorded", fmt::format("op {} was the last one reached", *run.last_op));
    }
    if (i >= logs.size() || logs[i].path.empty()) continue;
    const auto& [path, last_line] = logs[i];
    page.prose("stderr",
               last_line.empty() ? path : fmt::format("{}, last line: {}", path, last_line));
  }
}

std::string program_text(const Report& report) {
  if (report.runs.empty()) return {};
  std::vector<std::string> calls;
  for (const core::EnvironmentFact& fact : report.runs.front().manifest.environment) {
    if (!fact.name.starts_with(core::kSetByProgram)) continue;
    calls.push_back(escape_name(
        fmt::format("{} {}", fact.name.substr(core::kSetByProgram.size()), fact.value)));
  }
  return calls.empty() ? "" : fmt::format("itself called {}", fmt::join(calls, "; "));
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
  // Most are float32, and have few digits as that.
  const auto side = [](const comparators::Metric& number) {
    if (!number) return std::string("none");
    const auto narrow = static_cast<float>(*number);
    return static_cast<double>(narrow) == *number ? fmt::format("{}", narrow)
                                                  : fmt::format("{}", *number);
  };
  const std::string from = side(loss->baseline.back());
  const std::string to = side(loss->candidate.back());
  std::string text = fmt::format("loss of step {}: {}", loss->steps.back(), from);
  if (from != to) text += " | " + to;
  if (loss->first_apart) text += fmt::format(", apart since step {}", *loss->first_apart);
  if (drift == nullptr || !drift->first_apart) return text;
  const auto known = std::ranges::find(drift->steps, *drift->first_apart);
  const auto apart = [&](std::size_t at) {
    const comparators::Metric& distance = drift->candidate[at];
    return distance ? format_error(*distance) : std::string("what has no number");
  };
  text += fmt::format("; parameters apart since step {}", *drift->first_apart);
  if (known != drift->steps.end()) {
    text += " by " + apart(static_cast<std::size_t>(known - drift->steps.begin()));
  }
  if (drift->steps.back() == *drift->first_apart) return text;
  return text +
         fmt::format(", after step {} by {}", drift->steps.back(), apart(drift->steps.size() - 1));
}

namespace {

/// `numpy.random.default_rng was given the seed of the run (1 call, first at train.py:7)`.
std::string pinned_text(const Report& report) {
  std::string text;
  for (const core::EnvironmentFact& fact : report.runs.front().manifest.environment) {
    if (!fact.name.starts_with(core::kPinned)) continue;
    text += fmt::format("{}{} was given the seed of the run ({})",
                        text.empty() ? "" : ", ",
                        fact.name.substr(core::kPinned.size()),
                        fact.value);
  }
  return escape_name(text);
}

std::string drawn_text(const Report& report) {
  const RandomDraws& draws = report.draws;
  if (draws.operators == 0) return {};
  std::string text = fmt::format("{} drew from {}",
                                 format_count(draws.operators, "operator"),
                                 escape_name(fmt::format("{}", fmt::join(draws.devices, ", "))));
  if (!draws.parting.empty()) return text + "; " + draws.parting;
  if (report.resume) {
    return fmt::format(
        "{} ({}), from where the first run's generators had come", text, seeds_text(draws));
  }
  const std::string_view runs = report.repeat ? "all" : "both";
  return fmt::format("{} ({}): {} because {} runs had the same seed",
                     text,
                     seeds_text(draws),
                     draws.operators == 1 ? "it agrees" : "they agree",
                     runs);
}

}  // namespace

std::string random_text(const Report& report) {
  const bool agrees = report.status == Status::kReproducible || report.status == Status::kPartial;
  if (!agrees || report.runs.empty()) return {};
  const std::string drawn = drawn_text(report);
  const std::string pinned = pinned_text(report);
  return drawn + (drawn.empty() || pinned.empty() ? "" : "; ") + pinned;
}

std::string returned_text(const Report& report) {
  const ReturnedValues& returned = report.returned;
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
  std::string text = returned.first ? differing(returned) : agreeing(returned);
  if (!returned.opaque.empty()) {
    text += fmt::format("; of {} only the type was compared", fmt::join(returned.opaque, ", "));
  }
  return text;
}

void add_returned(Page& page, const Report& report) {
  const ReturnedValues& returned = report.returned;
  const auto& first = report.first_divergence;
  // Of a single call the verdict line has said it.
  const bool is_said = first && core::is_returned(shown_record(*first)) &&
                       returned.compared + returned.missing < 2 && returned.opaque.empty();
  if (is_said) return;
  page.prose("returned", returned_text(report));
}

void add_gate(Page& page, const GateOutcome* gate, const Detail& detail) {
  if (gate == nullptr) return;
  const std::size_t most = detail.everything ? 100 : 3;
  page.prose("baseline", baseline_text(*gate));
  page.prose("changed", shown_changes(gate->changes, most));
  if (!gate->nearest.empty()) {
    page.prose("nearest", gate->nearest + ": " + shown_changes(gate->nearest_changes, most));
  }
  for (const ExpectedOutcome& entry : gate->expected) {
    page.prose("expected", expected_text(entry));
  }
  for (const std::string& note : gate->notes) page.prose("note", note);
  page.prose("attempt", gate->attempt);
  const bool has_news = gate->baseline != BaselineState::kSame;
  if (!gate->pending.empty() && has_news) {
    const std::string why = gate->refusal.empty() ? "" : "; accept refuses it: " + gate->refusal;
    page.prose("pending", gate->pending + why);
  }
}

void add_repeat(Page& page, const Report& report, const Detail& detail) {
  const bool is_pass = report.status == Status::kReproducible;
  if (!report.repeat) {
    if (is_pass && detail.everything) page.prose("chance", bound_text(2));
    return;
  }
  const RepeatSummary& repeat = *report.repeat;
  if (is_pass) {
    page.prose("chance", bound_text(repeat.judged + 1));
  } else if (repeat.judged != 0) {
    page.prose("chance", differing_text(repeat));
  }
  if (!repeat.alike) {
    page.prose("", "the runs were not set up alike: chances are about runs that are");
  }
  if (repeat.ops.runs != 0) add_ops(page, repeat.ops, detail);
  page.list("", repeat.ops.notes, detail.items);
}

std::string dumps_text(const Report& report) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) texts.push_back(run.location);
  return fmt::format("{}", fmt::join(texts, ", "));
}

void add_passes(Page& page, const Report& report) {
  if (report.passes.size() < 2) return;
  const Report& first = report.passes[0];
  const Report& second = report.passes[1];
  if (report.kind == DivergenceKind::kUnrepeated) {
    add_pass(page, "1st pair", first);
    add_pass(page, "2nd pair", second);
  } else if (first.status != second.status) {
    add_pass(page, "1st pair", first);
  } else if (first.status == Status::kDiverged) {
    page.prose("1st pair", "diverged at the same operator; in " + dumps_text(first));
  }
}

void add_verbose(Page& page, const Report& report) {
  add_modules(page, report);
  add_runs(page, report);
  add_settings(page, report);
}

}  // namespace repro_check::cmd
