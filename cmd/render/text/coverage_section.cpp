// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"
#include "comparators/report/run_statistics.h"
#include "core/trace/op_range.h"

namespace repro_check::cmd {
namespace {

using comparators::Coverage;
using comparators::DivergenceKind;
using comparators::Report;
using comparators::RunSummary;
using comparators::Status;

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
  std::string text = "nothing:";
  for (const RunSummary& run : report.runs) {
    text += fmt::format("{} {} is {}",
                        &run == report.runs.data() ? "" : ",",
                        escape_name(run.name),
                        run.status == "complete" ? "whole"
                        : run.status == "failed" ? "not whole"
                                                 : run.status);
  }
  return text;
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
  if (is_nothing(report)) {
    return nothing_text(report);
  }
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
  if (!report.control_flow || report.kind == DivergenceKind::kMissing) {
    return {};
  }
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
  const auto look = [&](const comparators::OpDivergence& entry) {
    const bool is_pair = entry.baseline_index && entry.candidate_index;
    if (!is_pair || core::is_returned(shown_record(entry))) return;
    ++listed;
    is_listed = is_listed || entry.baseline_index == op;
  };
  if (report.first_divergence) look(*report.first_divergence);
  std::for_each(report.divergences.begin(), report.divergences.end(), look);
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
                    escape_name(run.name)));
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
                                    escape_name(run.name)));
  }
  if (report.coverage.sliced != 0) {
    sentences.push_back(
        fmt::format("of {} a slice alone; the rest of what differs was not measured",
                    format_count(report.coverage.sliced, "tensor")));
  }
  if (std::string limit = limit_text(report); !limit.empty()) {
    sentences.push_back(std::move(limit));
  }
  return fmt::format("{}", fmt::join(sentences, "; "));
}

// Patterns that left operators out of a recording; those of one run stand for both where they
// agree.
std::string filters_text(const Report& report) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) {
    const core::TraceSummary& trace = run.manifest.trace;
    std::string text;
    if (!trace.include.empty()) {
      text = fmt::format("only {}", fmt::join(trace.include, ", "));
    }
    if (!trace.exclude.empty()) {
      text += fmt::format("{}without {}", text.empty() ? "" : ", ", fmt::join(trace.exclude, ", "));
    }
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(text);
    }
  }
  if (texts.empty()) {
    return {};
  }
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
                                   escape_name(entry.pattern),
                                   escape_name(entry.replacement),
                                   format_count(entry.operators, "operator"));
    if (entry.tensors != 0) text += ", " + format_count(entry.tensors, "weight");
    texts.push_back(std::move(text));
  }
  return fmt::format("{} matched by names in {}; {}",
                     format_count(report.alignment.map, "operator"),
                     escape_name(map.file),
                     fmt::join(texts, "; "));
}

// What each rule judged, where there are any.
std::string rules_text(const Report& report) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < report.rules.size(); ++i) {
    const comparators::RuleUse& rule = report.rules[i];
    texts.push_back(fmt::format("{} ({}) {}: {}",
                                i,
                                escape_name(rule.match),
                                rule.policy,
                                format_count(rule.tensors, "tensor")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// What `--check-observer` found, run by run; what recording changed is the verdict already.
std::string observer_text(const Report& report) {
  using Outcome = comparators::ObserverFinding::Outcome;
  std::string text;
  for (const comparators::ObserverFinding& finding : report.observer) {
    const std::string run = escape_name(finding.run);
    text += text.empty() ? "" : "; ";
    switch (finding.outcome) {
      case Outcome::kUnchanged:
        text += fmt::format(
            "recording left {} of {} bit-identical", format_count(finding.outputs, "output"), run);
        break;
      case Outcome::kChanged:
        text += fmt::format("recording {} at level {} changed output {}",
                            run,
                            finding.level,
                            escape_name(finding.output));
        break;
      case Outcome::kNotJudged:
        text += fmt::format("{} not judged: {}", run, escape_name(finding.detail));
        break;
    }
  }
  return text;
}

std::string display_pointer(const std::string& pointer) {
  return pointer == "threads.intra_op" ? "threads" : escape_name(pointer);
}

void add_differences(Page& page, const Report& report, const Detail& detail) {
  std::vector<std::string> texts;
  for (const auto& difference : report.differences) {
    if (detail.everything || difference.affects_numbers) {
      const std::string pointer = display_pointer(difference.pointer);
      const std::string baseline = escape_name(difference.baseline);
      texts.push_back(
          fmt::format("{} {} -> {}", pointer, baseline, escape_name(difference.candidate)));
    }
  }
  const std::size_t shown = std::min(detail.items, texts.size());
  for (std::size_t i = 0; i < shown; ++i) page.prose(i == 0 ? "differ" : "", texts[i]);
  const std::size_t left = report.differences.size() - shown;
  if (left > 0) {
    const std::string text =
        shown == 0 ? fmt::format("{} without effect on numbers: -v", format_count(left, "setting"))
                   : fmt::format("... and {} more: -v", format_count(left));
    page.add(shown == 0 ? "differ" : "", Line(text, Role::kHint));
  }
}

// Tensors the runs were given that differ without being what the verdict is about.
void add_given(Page& page, const Report& report, const Detail& detail) {
  const auto& named = report.named_tensors;
  const bool is_shown = report.kind == DivergenceKind::kWeights ||
                        report.kind == DivergenceKind::kInputs || detail.everything;
  if (named.empty() || is_shown) {
    return;
  }
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
  for (std::size_t i = 0; i < shown; ++i) {
    page.prose(i == 0 ? "warning" : "", report.warnings[i]);
  }
  if (shown < total) {
    page.add("", Line(fmt::format("... and {} more: -v", total - shown), Role::kHint));
  }
}

std::string mend_text(const Report& report) {
  if (!report.mend.empty()) {
    return escape_name(report.mend);
  }
  const bool has_cause = report.status == Status::kDiverged && report.first_divergence;
  return has_cause ? escape_name(report.first_divergence->cause.advice) : "";
}

/// How little two runs that agree prove, said beside every pass of a pair.
std::string pair_text(const Report& report) {
  constexpr double kShare = 0.1;
  if (report.status != Status::kReproducible || report.repeat) return {};
  return fmt::format("; 2 runs agree ({} would show 1 in 10)",
                     comparators::runs_needed(kShare).value());
}

using comparators::RandomDraws;

std::string seeds_text(const RandomDraws& draws) {
  if (draws.seeds.size() == 1) return fmt::format("seed {}", draws.seeds.front());
  const bool is_all = draws.seeds.size() < RandomDraws::kMostSeeds;
  return fmt::format("seeds {}{}", fmt::join(draws.seeds, ", "), is_all ? "" : " and others");
}

}  // namespace

Page coverage_section(const Report& report, const Detail& detail) {
  // What stands beside the policy in one paragraph.
  constexpr std::size_t kOneLine = 67;
  Page page;
  std::string compared = compared_text(report);
  compared += parting_text(report);
  const std::string policy = is_nothing(report) || report.status == Status::kObserverEffect
                                 ? ""
                                 : escape_name(report.policy);
  const std::string joined = policy.empty() ? compared : compared + "; policy " + policy;
  const bool is_one_line = report.status != Status::kReproducible && columns(joined) <= kOneLine;
  page.prose("compared", is_one_line ? joined : compared);
  if (!is_one_line) page.prose("policy", policy + pair_text(report));
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
  return page;
}

Page runs_section(const Report& report, const std::vector<RunLog>& logs) {
  Page page;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunSummary& run = report.runs[i];
    if (run.status == "complete") {
      continue;
    }
    if (run.last_op) {
      page.prose("recorded", fmt::format("op {} was the last one reached", *run.last_op));
    }
    if (i >= logs.size() || logs[i].path.empty()) {
      continue;
    }
    std::string text = escape_name(logs[i].path);
    if (!logs[i].last_line.empty()) {
      text += ", last line: " + escape_name(logs[i].last_line);
    }
    page.prose("stderr", text);
  }
  return page;
}

std::string random_text(const comparators::Report& report) {
  const RandomDraws& draws = report.draws;
  const bool agrees = report.status == Status::kReproducible || report.status == Status::kPartial;
  if (!agrees || draws.operators == 0) return {};
  std::string text = fmt::format("{} drew from {}",
                                 format_count(draws.operators, "operator"),
                                 escape_name(fmt::format("{}", fmt::join(draws.devices, ", "))));
  if (!draws.parting.empty()) return text + "; " + escape_name(draws.parting);
  const std::string_view runs = report.repeat ? "all" : "both";
  return fmt::format("{} ({}): {} because {} runs had the same seed",
                     text,
                     seeds_text(draws),
                     draws.operators == 1 ? "it agrees" : "they agree",
                     runs);
}

}  // namespace repro_check::cmd
