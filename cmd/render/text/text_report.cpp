// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/render/json/report_json.h"
#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/numbers_words.h"
#include "cmd/words/report_words.h"
#include "comparators/report/report.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using comparators::Coverage;
using comparators::GrowthStep;
using comparators::Origin;
using comparators::Sample;
using comparators::TensorMetrics;

/// How many things a section may show; what it shows is whole.
struct Detail {
  bool everything = false;           ///< `-v`: all sections
  std::size_t samples = 3;           ///< elements of a tensor
  std::size_t items = 3;             ///< of one list
  std::size_t listed = kDefaultTop;  ///< further divergent operators
};

/// What a terminal shows at once, richest first.
constexpr auto kLevels = std::to_array<Detail>(
    {{}, {false, 3, 3, 5}, {false, 3, 2, 3}, {false, 2, 2, 2}, {false, 1, 2, 1}, {false, 0, 1, 1}});
constexpr Detail kEverything{true, 10, SIZE_MAX, SIZE_MAX};

/// Sizes of errors, classes of elements that no size covers, and what the short form leaves out,
/// whose percentiles are upper bounds, within a factor of 2. Without the bar in front.
std::string parts_text(std::string_view label, const Json& model) {
  const std::string said = say(view_text("metrics", label), model);
  return said.substr(std::min<std::size_t>(said.size(), 3));
}

std::string further_text(Json model, const TensorMetrics& m) {
  for (const char* kind : {"rtol", "atol"}) {
    const std::string given = fmt::format("{}_given_{}", kind, *kind == 'r' ? "atol" : "rtol");
    if (model[given] == model[fmt::format("{}_needed", kind)]) model.erase(given);
  }
  std::string text = parts_text("further", model);
  // Buckets that hold a difference.
  for (std::size_t i = 1; m.ulp_hist && i < m.ulp_hist->size(); ++i) {
    if (m.ulp_hist->at(i) == 0) continue;
    text += fmt::format(
        " | ULP {}: {}", word_at(comparators::kUlpBuckets, i), format_count(m.ulp_hist->at(i)));
  }
  return text;
}

void add_samples(Page& page, const std::vector<Sample>& samples, std::size_t limit) {
  const std::vector<std::vector<std::string>> rows = sample_rows(samples, limit);
  std::array<std::size_t, 4> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.at(i) = std::max(widths.at(i), columns(row.at(i)));
    }
  }
  for (const auto& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string spaces(widths.at(i) - columns(row.at(i)), ' ');
      text += (i == 0 ? "" : "  ") + (i == 3 ? spaces + row.at(i) : row.at(i) + spaces);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    page.add("", Line(text, &row == rows.data() ? Role::kHint : Role::kPlain));
  }
}

std::string share_text(const TensorMetrics& m) {
  std::string text = format_percent(m.n_diff, m.elements) + " differ";
  if (m.n_beyond > 0 && m.n_beyond < m.n_diff) {
    text += fmt::format(", {} beyond tolerance", format_percent(m.n_beyond, m.elements));
  }
  return text;
}

/// What was measured of two tensors, under a line of its own.
void add_measured(Page& page,
                  std::string_view note,
                  const TensorMetrics& metrics,
                  const std::vector<Sample>& samples,
                  const Detail& detail) {
  page.prose("", note);
  const Json model = json_of(metrics);
  page.prose("", parts_text("sizes", model));
  page.prose("", parts_text("classes", model));
  if (detail.everything) page.prose("", further_text(model, metrics));
  add_samples(page, samples, detail.samples);
}

void add_tensor(Page& page,
                std::string_view label,
                const comparators::TensorComparison& tensor,
                const Detail& detail) {
  const std::string type = format_tensor_type(tensor.baseline.dtype, tensor.baseline.shape);
  if (!tensor.metrics) return page.prose(label, type + ": " + amount_text(tensor));
  const std::string first =
      tensor.samples.empty() ? "" : ", first at " + index_text(tensor.samples.front());
  page.prose(label, type + ": " + share_text(*tensor.metrics) + first);
  if (tensor.slice) page.prose("", "in " + slice_text(tensor) + "; no others are stored");
  page.prose("", sentence_of(tensor.note));
  const std::string rule =
      tensor.rule ? fmt::format("judged by rule {}: {}", *tensor.rule, tensor.policy) : "";
  add_measured(page, rule, *tensor.metrics, tensor.samples, detail);
}

void add_named(Page& page, const Report& report, const Detail& detail) {
  const std::size_t shown = std::min(detail.items, report.named_tensors.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const comparators::NamedTensorDifference& tensor = report.named_tensors[i];
    const std::string_view label =
        word_at("input|weight|buffer", static_cast<std::size_t>(tensor.kind));
    if (tensor.metrics) {
      page.prose(label, tensor.name + ": " + share_text(*tensor.metrics));
      add_measured(page, sentence_of(tensor.note), *tensor.metrics, tensor.samples, detail);
    } else {
      page.prose(label, tensor.name + ": " + amount_text(tensor));
    }
  }
  page.left_out(report.named_tensors.size() - shown, "-v");
}

void add_outputs(Page& page, const OpDivergence& op, const Detail& detail) {
  const auto* leading = leading_output(op);
  for (const auto& output : op.outputs) {
    if (!detail.everything && &output != leading) continue;
    add_tensor(page, "output " + escape_name(output.baseline.slot), output, detail);
  }
  if (detail.everything || op.outputs.size() < 2) return;
  const std::string left = format_count(op.outputs.size() - 1, "output");
  page.add("", Line(fmt::format("... and {} more: -v", left), Role::kHint));
}

const OpDivergence* first_missing(const Report& report, bool in_candidate) {
  for (const OpDivergence* op : every_divergence(report)) {
    const bool is_wanted = op->baseline_index.has_value() == in_candidate;
    if (op->relation == Relation::kMissing && is_wanted) return op;
  }
  return nullptr;
}

std::string_view side_name(bool is_baseline) { return is_baseline ? "baseline" : "candidate"; }

void add_missing(Page& page, const Report& report) {
  for (const bool in_candidate : {true, false}) {
    const auto* op = first_missing(report, in_candidate);
    if (op != nullptr)
      page.add(side_name(in_candidate), op_line(shown_index(*op), shown_record(*op)));
  }
}

// What each side ran where the other did not, with its place where the operator is at hand.
void add_parting(Page& page, const Report& report) {
  const auto& parting = *report.control_flow;
  for (const bool in_baseline : {true, false}) {
    const auto last = in_baseline ? parting.last_common_baseline : parting.last_common_candidate;
    const std::string& next = in_baseline ? parting.baseline_next : parting.candidate_next;
    const std::uint64_t index = last ? *last + 1 : 0;
    const auto* op = first_missing(report, in_baseline);
    const bool is_at_hand = op != nullptr && shown_index(*op) == index;
    page.add(side_name(in_baseline),
             is_at_hand     ? op_line(index, shown_record(*op))
             : next.empty() ? Line("(end of the trace)")
                            : Line(fmt::format("op {} {}", index, next)));
  }
}

void add_further_causes(Page& page, const comparators::Cause& cause) {
  for (const comparators::Cause& further : cause.also) {
    const FindingText text = words_of(further);
    page.prose(&further == cause.also.data() ? "also" : "", text.whole() + "; " + text.fix);
  }
  // The evidence of what is unexplained says it.
  if (cause.kind == comparators::CauseKind::kUnexplained || cause.not_recorded.empty()) return;
  page.prose("unknown", fmt::format("not recorded: {}", fmt::join(cause.not_recorded, ", ")));
}

/// Once each, in the order in which they come first.
std::vector<std::string> once_each(std::vector<std::string> texts) {
  std::vector<std::string> out;
  for (std::string& text : texts) {
    if (!text.empty() && std::ranges::find(out, text) == out.end()) out.push_back(std::move(text));
  }
  return out;
}

void add_why(Page& page, const Report& report, const Detail& detail) {
  std::vector<std::string> sentences = unsaid_reasons(report);
  if (report.status == Status::kDiverged && report.first_divergence) {
    // That it does not repeat is the finding; what one of the pairs looks like comes after it.
    const bool is_after = report.kind == DivergenceKind::kUnrepeated;
    sentences.insert(is_after ? sentences.end() : sentences.begin(),
                     sentence_of(report.first_divergence->cause.evidence));
  }
  const std::string why = joined(once_each(std::move(sentences)), "; ");
  const auto parting = parting_line(report);
  const bool is_number = report.numbers && report.first_divergence;
  if (is_number) {
    page.add("where", op_line(*report.first_divergence));
    page.prose("fix", fix_of(report));
  }
  if (!parting) page.prose("why", why);
  // What executing the operator again by itself showed.
  if (report.replay) page.list("replay", texts_of(report.replay->sentences));
  page.prose("code", code_text(report));
  if (!is_number) page.prose("fix", fix_of(report));
  if (parting) {
    page.add("op", *parting);
    page.prose("why", why);
  }
  if (detail.everything && report.first_divergence) {
    add_further_causes(page, report.first_divergence->cause);
  }
}

void add_evidence(Page& page, const Report& report, const Detail& detail) {
  if (is_from_named(report) || detail.everything) add_named(page, report, detail);
  if (report.control_flow && report.kind == DivergenceKind::kControlFlow) {
    add_parting(page, report);
  } else if (report.kind == DivergenceKind::kMissing) {
    add_missing(page, report);
  }
  const auto& first = report.first_divergence;
  const bool is_shown = first && (!is_from_named(report) || detail.everything) &&
                        !core::is_of_blocks(shown_record(*first));
  if (!is_shown || report.kind == DivergenceKind::kMissing) return;
  page.list("differs in", notes_of(*first), detail.items);
  for (const auto& input : first->inputs) {
    if (!detail.everything) break;
    add_tensor(page, "input " + escape_name(input.baseline.slot), input, detail);
  }
  add_outputs(page, *first, detail);
}

using Chosen = std::vector<const OpDivergence*>;

bool is_consequence(const OpDivergence& op) { return op.relation == Relation::kPropagated; }

// Of missing operators, one a side stands in the evidence already.
const OpDivergence* already_shown(const Report& report) {
  const auto& first = report.first_divergence;
  if (report.kind != DivergenceKind::kMissing || !first || first->relation != Relation::kMissing) {
    return nullptr;
  }
  return first_missing(report, !first->baseline_index.has_value());
}

// The first `top` that are no consequence of another, then the worst consequences: one of them, or
// as many as a `top` of the user's own leaves room for.
Chosen choose(const Report& report, const RenderOptions& options) {
  Chosen chosen;
  Chosen consequences;
  const OpDivergence* shown = already_shown(report);
  for (const OpDivergence& op : report.divergences) {
    if (&op == shown) continue;
    if (options.all || (!is_consequence(op) && chosen.size() < options.top)) {
      chosen.push_back(&op);
    } else if (is_consequence(op)) {
      consequences.push_back(&op);
    }
  }
  std::ranges::stable_sort(consequences, std::ranges::greater{}, &OpDivergence::severity);
  const std::size_t left = options.top - std::min(options.top, chosen.size());
  const std::size_t free = options.all ? 0 : options.top == kDefaultTop ? 1 : left;
  consequences.resize(std::min(consequences.size(), free));
  chosen.insert(chosen.end(), consequences.begin(), consequences.end());
  return chosen;
}

std::string consequence_text(const OpDivergence& op) {
  const auto* output = leading_output(op);
  if (output == nullptr || !output->metrics) return "propagated";
  const auto& m = *output->metrics;
  if (m.nan_baseline + m.nan_candidate > 0) return "NaN on one side";
  if (m.max_abs_exact) return fmt::format("abs max {}", *m.max_abs_exact);
  return m.max_abs ? "abs max " + format_error(*m.max_abs) : "propagated";
}

std::string counts_text(const Report& report) {
  const auto& c = report.coverage;
  const bool first_counts = report.first_divergence.has_value();
  const Relation first = first_counts ? report.first_divergence->relation : Relation::kMissing;
  // An operator put in the place of another is counted as missing on both sides.
  const bool is_replaced =
      first_counts && first == Relation::kMismatch &&
      report.first_divergence->cause.kind == comparators::CauseKind::kOperatorDiffers;
  const bool has_producer = first_counts && !report.first_divergence->producers.empty();
  const bool is_origin =
      first == Relation::kOrigin || (first == Relation::kMismatch && !is_replaced && !has_producer);
  const bool is_propagated =
      first == Relation::kPropagated || (first == Relation::kMismatch && has_producer);
  const auto text = [&](std::uint64_t count, bool is_of_first, const char* what, const char* s) {
    const std::uint64_t more = count - (first_counts && is_of_first && count > 0 ? 1 : 0);
    return more == 0 ? "" : fmt::format("{} {}{}", format_count(more), what, more > 1 ? s : "");
  };
  return joined({text(c.origins, is_origin, "more origin", "s"),
                 text(c.propagated, is_propagated, "propagated", ""),
                 text(c.missing_in_baseline + c.missing_in_candidate,
                      first == Relation::kMissing,
                      "missing",
                      "")},
                ", ");
}

// `430 of 449 operators differ: 1 more origin, 429 propagated`.
std::string summary_text(const Report& report, std::uint64_t further) {
  const std::string counts = counts_text(report);
  const std::string reasons = counts.empty() ? "" : ": " + counts;
  const auto& first = report.first_divergence;
  const std::uint64_t length = report.coverage.baseline_ops;
  const bool is_counted = first && !report.resume && first->baseline_index &&
                          !core::is_of_blocks(first->baseline) && *first->baseline_index < length &&
                          report.coverage.missing_in_baseline == 0;
  const std::uint64_t behind = is_counted ? length - *first->baseline_index - 1 : 0;
  const std::string text = format_count(further);
  return is_counted && behind >= further
             ? fmt::format("{} of {} differ{}", text, format_count(behind, "operator"), reasons)
             : fmt::format("{} more{}", text, reasons);
}

void add_list(Page& page,
              const Report& report,
              const RenderOptions& options,
              const Detail& detail) {
  if (report.divergences_total == 0) return;
  const std::uint64_t further = report.divergences_total - (report.first_divergence ? 1 : 0);
  const bool has_shown_one = already_shown(report) != nullptr;
  Chosen chosen = choose(report, options);
  if (further == 0 || (chosen.empty() && further == 1 && has_shown_one)) return;
  if (chosen.size() > detail.listed) {
    // The last of them is the worst consequence, and it stays.
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(detail.listed) - 1, chosen.end() - 1);
  }
  const std::string_view how = chosen.empty() && !options.all ? ": --all" : "";
  page.prose("after it", summary_text(report, further).append(how));
  if (chosen.empty()) return;
  for (const OpDivergence* op : chosen) {
    const std::string tail =
        is_consequence(*op) ? consequence_text(*op) : std::string(word_of(op->relation));
    page.add("", op_line(*op).put(" ").put(tail, relation_role(op->relation)));
  }
  const std::uint64_t shown = chosen.size() + (has_shown_one ? 1 : 0);
  page.left_out(further - std::min<std::uint64_t>(further, shown),
                options.all ? "not kept in this report" : "--all");
}

Line origin_line(const Origin& origin, std::uint64_t finals) {
  const std::uint64_t index = origin.baseline_index.value_or(origin.candidate_index.value_or(0));
  const std::string spread = origin.tainted ? fmt::format("{} after it, {} of {} final",
                                                          format_count(*origin.tainted),
                                                          format_count(origin.outputs_total),
                                                          format_count(finals))
                                            : "";
  Line line(origin.baseline_index ? "" : "candidate ");
  return line.put(op_line(index, origin.record)).put("  ").put(spread, Role::kHint);
}

std::string path_text(const Origin& origin) {
  const std::string text = joined(origin.path, " -> ", [](const GrowthStep& step) {
    return step_text(step) + (step.out ? fmt::format(" {:.2g}", *step.out) : "") +
           (step.factor ? fmt::format(" (x{:.2g})", *step.factor) : "");
  });
  const std::size_t left = static_cast<std::size_t>(origin.path_steps) - origin.path.size();
  return left == 0 || text.empty()
             ? text
             : fmt::format("{}; {} steps not shown", text, format_count(left));
}

void add_growth(Page& page, const comparators::Growth& growth, const Json& model) {
  if (!growth.first || !growth.last) return;
  Json said = model.at("growth");
  said["from"] = step_text(*growth.first);
  said["to"] = step_text(*growth.last);
  page.prose("growth", say(view_text("report", "growth"), said));
}

void add_spread(
    Page& page, const Report& report, const Json& model, const Detail& detail, bool all) {
  const bool is_wanted = all || detail.everything || report.origins_total > 1;
  if (!is_wanted || report.origins.empty()) return;
  const std::size_t shown =
      all ? report.origins.size() : std::min(detail.items, report.origins.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.add(i == 0 ? "origins" : "", origin_line(report.origins[i], report.final_values));
    if (detail.everything) page.prose("", path_text(report.origins[i]));
  }
  page.left_out(report.origins_total - shown, all ? "not told apart" : "--all");
  if (detail.everything) add_growth(page, report.growth, model);
}

// Every kind of state with its word; what is right in one line.
void add_resume(Page& page, const Report& report, const Json& model) {
  if (!report.resume) return;
  const comparators::ResumeSummary& resume = *report.resume;
  page.prose("resume",
             say("{files:file} of the checkpoint ", model.at("resume")) + checkpoint_text(resume) +
                 say("; operators from op {op_index/baseline} | {op_index/candidate} on[; "
                     "{first_calls:operator+} of its first step alone, as a new process makes what "
                     "the other had]",
                     model.at("resume")));
  std::vector<std::string> right;
  for (const comparators::RestoredState& state : resume.states) {
    if (state.outcome == comparators::Restored::kRight) {
      right.emplace_back(comparators::state_name(state.kind));
    } else {
      page.prose("", restored_text(state));
    }
  }
  if (!right.empty()) page.prose("", "right: " + joined(right, ", "));
}

std::string nothing_text(const Report& report) {
  return "nothing: " + joined(report.runs, ", ", [](const RunSummary& run) {
           const bool is_known = run.status == "complete" || run.status == "failed";
           const std::string_view state = run.status == "complete" ? "whole" : "not whole";
           return fmt::format("{} is {}", run.name, is_known ? state : run.status);
         });
}

// Runs that left no whole dump have no operators to count.
bool is_nothing(const Report& report) {
  const auto is_gap = [](const RunSummary& run) { return run.status != "complete"; };
  return std::ranges::any_of(report.runs, is_gap) && report.coverage.compared == 0 &&
         report.coverage.baseline_ops == 0;
}

/// `, 34 without content (aten::detach 20, aten::empty 14)`; empty for none.
std::string without_content_text(const Report& report) {
  if (report.coverage.without_content == 0) return {};
  std::vector<comparators::OperatorCount> operators = report.without_content;
  std::ranges::stable_sort(operators, std::ranges::greater(), &comparators::OperatorCount::calls);
  constexpr std::size_t kShown = 3;
  std::vector<std::string> texts;
  for (const auto& [name, calls] : operators) {
    if (texts.size() < kShown) texts.push_back(core::printable(name) + " " + format_count(calls));
  }
  if (operators.size() > kShown) texts.emplace_back("others");
  return fmt::format(", {} without content{}",
                     format_count(report.coverage.without_content),
                     texts.empty() ? "" : " (" + joined(texts, ", ") + ")");
}

std::string compared_text(const Report& report, Json coverage) {
  const Coverage& c = report.coverage;
  if (report.numbers) {
    const std::string numbers = numbers_text(*report.numbers);
    return numbers.empty() ? "nothing"
                           : numbers + say("; {tensors:tensor}, {bytes:bytes}", coverage);
  }
  if (report.status == Status::kObserverEffect) {
    return "nothing: what recording changes cannot be judged by recordings of it";
  }
  if (is_nothing(report)) return nothing_text(report);
  const bool has_diverged = report.status == Status::kDiverged;
  std::string text =
      c.baseline_ops == c.candidate_ops
          ? "{compared:count} of {baseline_ops:operator}"
          : "{compared:count} of {baseline_ops:count} | {candidate_ops:count} operators";
  if (report.status == Status::kReproducible) {
    text = "{compared:operator}, {tensors:tensor}, {bytes:bytes}";
  } else if (has_diverged && c.compared > 0 && c.equal == c.compared) {
    const bool is_parted = report.kind == DivergenceKind::kControlFlow;
    text = (is_parted ? text : "{compared:operator}") + ", all bit-identical";
  } else if (!has_diverged && c.equal > 0) {
    text += ", {equal:count} bit-identical";
  }
  coverage["missing"] = c.missing_in_baseline + c.missing_in_candidate;
  coverage["skipped"] = c.skipped - std::min(c.skipped, c.without_content);
  return say(text + "; {missing:count} missing, {skipped:count} skipped", coverage) +
         without_content_text(report) + say("[, {not_judged:count+} not judged]", coverage);
}

// Where it is the verdict, how much of the streams was left over; where it is a consequence, where.
std::string parting_text(const Report& report, const Json& parting) {
  if (parting.is_null() || report.kind == DivergenceKind::kMissing) return {};
  const bool is_verdict = report.kind == DivergenceKind::kControlFlow;
  return say(view_text("report", is_verdict ? "left over" : "parted"), parting);
}

/// What a compiler has put into regions counts as no operator.
std::string fused_text(const Coverage& c) {
  if (c.fused_baseline + c.fused_candidate == 0) return {};
  const std::string other =
      c.fused_baseline == c.fused_candidate ? "" : " | " + format_count(c.fused_candidate);
  return fmt::format("; {}{} inside compiled regions, not recorded; compared at their borders",
                     format_count(c.fused_baseline),
                     other);
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
  return fmt::format("op {} of the baseline is the first that is not bit-identical{}",
                     *first,
                     has_passed(report, *first) ? "; it passed" : "");
}

// Where `dump.max_bytes` was reached, and how many operators that leaves to their digests.
std::string limit_text(const Report& report) {
  const std::string text = joined(report.runs, " and ", [](const RunSummary& run) -> std::string {
    const core::TraceSummary& trace = run.manifest.trace;
    if (!trace.bytes_limit_reached_at || *trace.bytes_limit_reached_at >= trace.operators)
      return {};
    const std::uint64_t left = trace.operators - *trace.bytes_limit_reached_at;
    return fmt::format("the last {} of {}", format_count(left, "operator"), run.name);
  });
  if (text.empty()) return {};
  return fmt::format("of {} not all stored (dump.max_bytes); there digests alone decided", text);
}

template <typename Say>
std::string of_runs(const Report& report, Say say_one) {
  std::vector<std::string> texts;
  for (const RunSummary& run : report.runs) texts.push_back(say_one(run.manifest.trace));
  return joined(once_each(std::move(texts)), " | ");
}

// A recording of a window has no values elsewhere, one that refers to another dump may have them
// where nobody looked: there digests alone decided.
std::string values_text(const Report& report) {
  const std::string windows =
      of_runs(report, [](const core::TraceSummary& t) { return core::describe(t.keep_ops); });
  const std::string elsewhere = joined(report.runs, "; ", [](const RunSummary& run) -> std::string {
    if (run.missing_reference.empty() || !run.manifest.trace.reference) return {};
    return fmt::format("{} of {} in a dump that was not given; there digests decided",
                       format_count(run.manifest.trace.reference->contents, "content"),
                       run.name);
  });
  const std::string sliced = format_count(report.coverage.sliced, "tensor");
  return joined(
      {windows.empty() ? "" : fmt::format("of {} alone; elsewhere digests decided", windows),
       elsewhere,
       report.coverage.sliced == 0
           ? ""
           : fmt::format("of {} a slice alone; the rest of what differs was not measured", sliced),
       limit_text(report)},
      "; ");
}

// Patterns that left operators out of a recording; those of one run stand for both where they
// agree.
std::string filters_text(const Report& report) {
  const std::string text = of_runs(report, [](const core::TraceSummary& trace) {
    return joined({trace.include.empty() ? "" : "only " + joined(trace.include, ", "),
                   trace.exclude.empty() ? "" : "without " + joined(trace.exclude, ", ")},
                  ", ");
  });
  if (text.empty()) return {};
  return text + "; what that leaves out was not compared, and counts as skipped";
}

// How many pairs another name hid, and what each line of the map found.
std::string map_text(const Report& report, const Json& entries) {
  if (entries.empty()) return {};
  return fmt::format("{} matched by names in {}; {}",
                     format_count(report.alignment.map, "operator"),
                     report.name_map.file,
                     joined(entries, "; ", [](const Json& entry) {
                       return say(
                           "line {line} ({kind} {pattern} -> {replacement}): "
                           "{operators:operator}[, {tensors:weight+}]",
                           entry);
                     }));
}

// What each rule judged, where there are any.
std::string rules_text(const Json& rules) {
  std::size_t number = 0;
  return joined(rules, "; ", [&](const Json& rule) {
    return fmt::format("{} ", number++) + say("({match}) {policy}: {tensors:tensor}", rule);
  });
}

// What `--check-observer` found, run by run; what recording changed is the verdict already.
std::string observer_text(const Json& findings) {
  return joined(findings, "; ", [](const Json& finding) {
    return say(view_text("observer", finding.at("outcome").get<std::string>()), finding);
  });
}

void add_differences(Page& page, const Report& report, const Detail& detail) {
  std::vector<std::string> texts;
  for (const auto& [pointer, baseline, candidate, affects_numbers] : report.differences) {
    if (!detail.everything && !affects_numbers) continue;
    const std::string name = pointer == "threads.intra_op" ? "threads" : pointer;
    // Never among those that are left out.
    const auto place = name == "libtorch.version" ? texts.begin() : texts.end();
    texts.insert(place, fmt::format("{} {} -> {}", name, baseline, candidate));
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
  if (named.empty() || is_from_named(report) || detail.everything) return;
  const bool is_input = named.front().kind == core::NamedTensorKind::kInput;
  const std::string tail =
      named.size() > 1 ? fmt::format(" and {} more differ: -v", format_count(named.size() - 1))
                       : std::string(" differs: -v");
  page.prose("given", (is_input ? "input " : "") + named.front().name + tail);
}

void add_warnings(Page& page, const Report& report, const Detail& detail) {
  const std::vector<std::string> warnings = warnings_of(report);
  const std::size_t total = warnings.size();
  const std::size_t shown =
      std::min({std::max(detail.items, non_finite_of(report).size()), total, kMostWarnings});
  page.list("warning", warnings, shown);
  page.left_out(total - shown, detail.everything ? "--format json" : "-v");
}

/// How little two runs that agree prove, said beside every pass of a pair.
std::string pair_text(const Report& report) {
  constexpr double kShare = 0.1;
  if (report.status != Status::kReproducible || report.repeat) return {};
  return fmt::format("; 2 runs agree ({} would show 1 in 10)",
                     comparators::runs_needed(kShare).value());
}

/// A pass is about what was recorded, and of a program that may be a part.
std::string part_text(const Report& report) {
  if (report.runs.empty()) return {};
  const core::TraceSummary& trace = report.runs.front().manifest.trace;
  return joined({trace.only.empty() ? "" : "recorded of the program: " + trace.only,
                 trace.optimizer != core::kOptimizerState
                     ? ""
                     : "of an optimizer's step what it leaves, not what each of its operators "
                       "makes"},
                "; ");
}

/// What was compared, by which policy, what differs around it, warnings.
void add_coverage(Page& page, const Report& report, const Json& model, const Detail& detail) {
  // What stands beside the policy in one paragraph.
  constexpr std::size_t kOneLine = 67;
  const std::string compared = report.blocks ? escape_name(blocks_text(report))
                                             : compared_text(report, model.at("coverage")) +
                                                   parting_text(report, model.at("control_flow")) +
                                                   fused_text(report.coverage);
  const bool has_policy = !is_nothing(report) && report.status != Status::kObserverEffect;
  const std::string policy = has_policy ? escape_name(report.policy) : "";
  const std::string line = policy.empty() ? compared : compared + "; policy " + policy;
  const bool is_one_line = report.status != Status::kReproducible && columns(line) <= kOneLine;
  page.prose("compared", is_one_line ? line : compared);
  if (!is_one_line) page.prose("policy", policy + pair_text(report));
  if (report.numbers) page.prose("operators", changed_text(*report.numbers));
  page.prose("ranks", escape_name(ranks_text(report)));
  page.prose("scope", part_text(report));
  page.prose("training", training_text(report));
  page.prose("data", data_text(report));
  page.prose("program", program_text(report));
  page.prose("random", random_text(report));
  page.prose("map", map_text(report, model.at("name_map").at("entries")));
  page.prose("rules", rules_text(model.at("rules")));
  page.prose("filters", filters_text(report));
  page.prose("values", values_text(report));
  add_differences(page, report, detail);
  add_given(page, report, detail);
  page.prose("observer", observer_text(model.at("observer")));
  page.prose("first bit", first_bit_text(report));
  add_warnings(page, report, detail);
}

/// What is known of runs that did not finish.
void add_unfinished(Page& page, const Report& report, const std::vector<RunLog>& logs) {
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const RunSummary& run = report.runs[i];
    if (run.status == "complete") continue;
    if (run.last_op) {
      page.prose("recorded", fmt::format("op {} was the last one reached", *run.last_op));
    }
    if (i >= logs.size() || logs[i].path.empty()) continue;
    const auto& [path, last_words] = logs[i];
    page.prose("stderr",
               last_words.empty() ? path : fmt::format("{}, at its end: {}", path, last_words));
  }
}

void add_returned(Page& page, const Report& report) {
  const comparators::ReturnedValues& returned = report.returned;
  const auto& first = report.first_divergence;
  // Of a single call the verdict line has said it.
  const bool is_said = first && core::is_returned(shown_record(*first)) &&
                       returned.compared + returned.missing < 2 && returned.opaque.empty();
  if (!is_said) page.prose("returned", returned_text(report));
}

std::string shown_changes(const std::vector<baselines::Change>& changes, std::size_t most) {
  const std::span shown(changes.data(), std::min(most, changes.size()));
  const std::string text = joined(shown, ", ", [](const baselines::Change& change) {
    return fmt::format("{} {} -> {}", change.name, change.accepted, change.now);
  });
  return changes.size() <= most ? text : fmt::format("{} and {} more", text, changes.size() - most);
}

std::string baseline_text(const GateOutcome& gate) {
  return say_unescaped(
      view_text("baseline", word_of(gate.baseline)),
      {{"agree", gate.runs_agree}, {"file", gate.file}, {"summary", gate.summary}});
}

/// How the runs stand to what was accepted. @param gate  may be null
void add_gate(Page& page, const GateOutcome* gate, const Json& model, const Detail& detail) {
  if (gate == nullptr) return;
  const std::size_t most = detail.everything ? 100 : 3;
  page.prose("baseline", baseline_text(*gate));
  page.prose("changed", shown_changes(gate->changes, most));
  if (!gate->nearest.empty()) {
    page.prose("nearest", gate->nearest + ": " + shown_changes(gate->nearest_changes, most));
  }
  for (const Json& entry : model.at("expected")) {
    constexpr std::string_view kEntry =
        "{match}: {outcome}[, {operators:operator+}][, {detail}]; until {expires}, {owner}";
    page.prose("expected", say(kEntry, entry));
  }
  for (const std::string& note : gate->notes) page.prose("note", note);
  page.prose("attempt", gate->attempt);
  const bool has_news = gate->baseline != BaselineState::kSame;
  if (!gate->pending.empty() && has_news) {
    const std::string why = gate->refusal.empty() ? "" : "; accept refuses it: " + gate->refusal;
    page.prose("pending", gate->pending + why);
  }
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

std::string interval_text(const comparators::Interval& chance) {
  return percent_text(chance.low, Bound::kLower) + " to " +
         percent_text(chance.high, Bound::kUpper);
}

// What a pass of so many runs leaves open, and how many runs would leave less.
std::string bound_text(std::uint64_t runs) {
  std::string text =
      fmt::format("{} runs agree: at 95 % confidence the next one differs with a chance below {}",
                  format_count(runs),
                  percent_text(comparators::undetected_share(runs - 1), Bound::kUpper));
  for (const std::uint64_t odds : {10U, 20U, 100U, 1000U}) {
    const auto needed = comparators::runs_needed(1.0 / static_cast<double>(odds));
    if (!needed || *needed <= runs) continue;
    return fmt::format("{}; {} runs show what happens once in {}",
                       text,
                       format_count(*needed),
                       format_count(odds));
  }
  return text;
}

std::string differing_text(const comparators::RepeatSummary& repeat) {
  const std::string& first = repeat.runs.front().name;
  const bool is_odd = repeat.first_is_odd() && repeat.judged > 1;
  return fmt::format("{} of {} runs differ from {}: a chance of {} (95 % confidence)",
                     format_count(repeat.differing),
                     format_count(repeat.judged),
                     first,
                     interval_text(repeat.chance())) +
         (is_odd ? fmt::format("; more than half, so {} is itself the odd one", first) : "");
}

std::string flaky_text(const comparators::FlakyOp& op, const Json& model, bool everything) {
  std::string text = op_line(op.index, op.record).raw() +
                     fmt::format(": {} results", op.counts.size()) +
                     fmt::format(" in {} runs ({})", op.runs(), fmt::join(op.counts, ", ")) +
                     say("[, l2 rel {l2_rel:number}][, max {ulp_max:ulp} ULP]", model);
  if (!everything) return text;
  return text + fmt::format(", disagreement {:.4g}, differs from the first with {}",
                            op.disagreement,
                            interval_text(op.differs));
}

/// @param model  of `ops`
void add_ops(Page& page,
             const comparators::OpRepeatability& ops,
             const Json& model,
             const Detail& detail) {
  if (ops.flaky == 0) {
    constexpr std::string_view kStable =
        "{assessed:operator} stable in {runs:count} runs, {not_assessed:count} not assessed";
    return page.prose("", say(kStable, model));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ops.ops.size(); ++i) {
    texts.push_back(flaky_text(ops.ops[i], model.at("items").at(i), detail.everything));
  }
  page.list("flaky", texts, detail.items);
  page.prose("",
             say("{flaky:count} of {assessed:operator} gave more than one result for equal inputs",
                 model) +
                 (detail.items < texts.size() ? ": -v lists them" : ""));
}

/// What N runs of one configuration say together; with everything also what a pair does.
void add_repeat(Page& page, const Report& report, const Json& model, const Detail& detail) {
  const bool is_pass = report.status == Status::kReproducible;
  if (!report.repeat) {
    if (is_pass && detail.everything) page.prose("chance", bound_text(2));
    return;
  }
  const comparators::RepeatSummary& repeat = *report.repeat;
  if (is_pass) {
    page.prose("chance", bound_text(repeat.judged + 1));
  } else if (repeat.judged != 0) {
    page.prose("chance", differing_text(repeat));
  }
  if (!repeat.alike) {
    page.prose("", "the runs were not set up alike: chances are about runs that are");
  }
  if (repeat.ops.runs != 0) add_ops(page, repeat.ops, model.at("repeat").at("operators"), detail);
  page.list("", repeat.ops.notes, detail.items);
}

/// Under level auto, what the other round of recordings said, and where its dumps are.
void add_passes(Page& page, const Report& report) {
  if (report.passes.size() < 2) return;
  const Report& first = report.passes[0];
  const Report& second = report.passes[1];
  const auto add = [&](std::string_view label, const Report& pass) {
    page.prose(label, verdict_line(pass).raw() + "; in " + dumps_text(pass));
  };
  if (report.kind == DivergenceKind::kUnrepeated) {
    add("1st pair", first);
    add("2nd pair", second);
  } else if (first.status != second.status || first.blocks) {
    add("1st pair", first);
  } else if (first.status == Status::kDiverged) {
    page.prose("1st pair", "diverged at the same operator; in " + dumps_text(first));
  }
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
  return joined(counts, ", ", [](const auto& count) {
    const bool are_origins = count.first == Relation::kOrigin && count.second != 1;
    return fmt::format("{} {}{}", count.second, word_of(count.first), are_origins ? "s" : "");
  });
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

// One line a setting of either run: equal values once, others as `baseline -> candidate`.
void add_settings(Page& page, const Report& report) {
  if (report.runs.size() < 2) return;
  std::vector<std::string> names;
  for (const RunSummary& run : {std::cref(report.runs[0]), std::cref(report.runs[1])}) {
    for (const core::Setting& setting : run.manifest.settings) names.push_back(setting.name);
  }
  std::vector<std::string> texts;
  for (const std::string& name : once_each(std::move(names))) {
    const auto used = [&](const RunSummary& run) {
      const std::string* value = core::used_setting(run.manifest, name);
      return value == nullptr ? std::string("(not recorded)") : *value;
    };
    const std::string left = used(report.runs[0]);
    const std::string right = used(report.runs[1]);
    texts.push_back(fmt::format("{} {}{}", name, left, left == right ? "" : " -> " + right));
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
                           core::given_seed_text(m),
                           m.determinism,
                           m.disable_dropout ? "off" : "as the model has it",
                           m.rng,
                           format_seconds(m.seconds)));
  }
}

/// @param model  as json_summary() makes it
Page page_with(const Report& report,
               const Json& model,
               const RenderOptions& options,
               const Detail& detail) {
  Page page;
  if (options.name_pair) page.prose("pair", dumps_text(report));
  add_why(page, report, detail);
  add_returned(page, report);
  add_resume(page, report, model);
  add_passes(page, report);
  add_evidence(page, report, detail);
  add_spread(page, report, model, detail, options.all);
  add_unfinished(page, report, options.logs);
  add_list(page, report, options, detail);
  add_gate(page, options.gate, model, detail);
  add_coverage(page, report, model, detail);
  add_repeat(page, report, model, detail);
  if (!detail.everything) return page;
  add_modules(page, report);
  add_runs(page, report);
  add_settings(page, report);
  return page;
}

/// Under its verdict; on a terminal the richest that fits its lines, where nobody asked for more.
std::string body_of(const Report& report, const RenderOptions& options, std::size_t lines) {
  const Json model = json_summary(report, options.gate);
  const auto at = [&](const Detail& detail) {
    return page_with(report, model, options, detail)
        .str(options.color, options.link_host, options.columns);
  };
  if (options.verbosity > 0) return at(kEverything);
  if (options.all || options.top != kDefaultTop) return at({.listed = SIZE_MAX});
  if (options.columns == 0) return at(kLevels.front());
  std::string text;
  for (const Detail& detail : kLevels) {
    text = at(detail);
    const auto taken = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    if (taken + lines <= kDefaultReportLines) break;
  }
  return text;
}

}  // namespace

namespace {

/// Of the first row of a page: rows begin with a label behind two spaces.
std::size_t end_of_row(const std::string& body) {
  for (std::size_t at = body.find('\n'); at != std::string::npos; at = body.find('\n', at + 1)) {
    if (at + 3 < body.size() && body.substr(at + 1, 2) == "  " && body[at + 3] != ' ')
      return at + 1;
  }
  return body.size();
}

bool leads_with_border(const Report& report) {
  return report.status == Status::kDiverged && report.first_divergence &&
         core::is_of_blocks(shown_record(*report.first_divergence));
}

}  // namespace

std::string render_text(const Report& report, const RenderOptions& options) {
  std::string out = verdict_line(report).str(options.color, options.link_host) + "\n";
  if (options.verbosity < 0) return out;
  const std::vector<std::string> commands = next_commands(report, options);
  std::string next;
  for (const std::string& command : commands) {
    next += Line("next: " + command, Role::kHint).str(options.color) + "\n";
  }
  const std::string body = body_of(report, options, 1 + commands.size());
  // Where operators are still to be recorded, the commands stand behind what says where to look.
  const std::size_t where = leads_with_border(report) ? end_of_row(body) : body.size();
  return out + body.substr(0, where) + next + body.substr(where);
}

}  // namespace repro_check::cmd
