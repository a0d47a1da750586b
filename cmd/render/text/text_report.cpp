// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::GrowthStep;
using comparators::Metric;
using comparators::Origin;
using comparators::Sample;
using comparators::TensorMetrics;

/// What metrics say, those that are there: `abs mean 2e-07 | signs flipped 3`.
class MetricList {
 public:
  void put(std::string_view name, const std::string& value) {
    text_ += fmt::format("{}{} {}", text_.empty() ? "" : " | ", name, value);
  }
  void put(std::string_view name, const Metric& metric) {
    if (metric) put(name, format_error(*metric));
  }
  void put(std::string_view name, std::uint64_t count) {
    if (count > 0) put(name, format_count(count));
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

std::string sizes_text(const TensorMetrics& m) {
  MetricList list;
  const std::string mean = m.ulp_mean ? ", mean " + format_error(*m.ulp_mean) : "";
  if (m.ulp_max) list.put("ULP max", format_ulp(*m.ulp_max) + mean);
  if (m.max_abs_exact) {
    list.put("abs max", std::to_string(*m.max_abs_exact));
  } else {
    list.put("abs max", m.max_abs);
  }
  list.put("rel max", m.max_rel);
  return list.text();
}

// Classes of elements that no error size covers, by name, where there are any.
std::string classes_text(const TensorMetrics& m) {
  MetricList list;
  list.put("NaN in baseline only", m.nan_baseline);
  list.put("NaN in candidate only", m.nan_candidate);
  list.put("Inf of opposite sign", m.inf_sign);
  list.put("Inf in baseline only", m.inf_baseline);
  list.put("Inf in candidate only", m.inf_candidate);
  list.put("NaN payload", m.nan_both_payload);
  list.put("sign of zero", m.zero_sign_only);
  list.put("non-canonical bool", m.noncanonical_bool);
  return list.text();
}

// What the short form leaves out.
std::string further_metrics(const TensorMetrics& m) {
  MetricList list;
  list.put("finite pairs", format_count(m.n_finite));
  list.put("beyond policy", format_count(m.n_beyond));
  list.put("abs mean", m.mean_abs);
  list.put("rel mean", m.mean_rel);
  list.put("rel max where baseline is not 0", m.max_rel_finite);
  list.put("baseline 0 and candidate not", m.zero_baseline);
  for (const auto& [name, share] : {std::pair{"50 %", 0.5}, std::pair{"99 %", 0.99}}) {
    // Upper bounds, within a factor of 2.
    const auto bounds = m.rel_hist ? comparators::rel_percentile(*m.rel_hist, share) : std::nullopt;
    if (!bounds || bounds->at_most <= 0) continue;
    list.put(fmt::format("rel of {} below", name), Metric(bounds->at_most));
  }
  list.put("0 on both sides", m.zeros_both);
  list.put("signs flipped", m.flips);
  list.put("subnormal against 0", m.flushed);
  list.put("saturated", m.saturated);
  list.put("False to True", m.false_to_true);
  list.put("True to False", m.true_to_false);
  list.put("RMSE", m.rmse);
  list.put("NMSE", m.nmse);
  list.put("L2 relative", m.l2_rel);
  list.put("cosine", m.cosine);
  list.put("norm ratio", m.norm_ratio);
  list.put("share within 1/1000", m.within_1e3);
  list.put("share within 5/1000", m.within_5e3);
  list.put("rtol that would pass", m.rtol_needed);
  list.put("atol that would pass", m.atol_needed);
  if (m.rtol_given_atol != m.rtol_needed) {
    list.put("rtol that would pass with this atol", m.rtol_given_atol);
  }
  if (m.atol_given_rtol != m.atol_needed) {
    list.put("atol that would pass with this rtol", m.atol_given_rtol);
  }
  // Buckets that hold a difference.
  for (std::size_t i = 1; m.ulp_hist && i < m.ulp_hist->size(); ++i) {
    list.put(fmt::format("ULP {}:", comparators::kUlpBuckets.at(i)), m.ulp_hist->at(i));
  }
  return list.text();
}

void add_metrics(Page& page, const TensorMetrics& m, const Detail& detail) {
  page.prose("", sizes_text(m));
  page.prose("", classes_text(m));
  if (detail.everything) page.prose("", further_metrics(m));
}

// NaN payloads and zeros of unlike sign can read the same, and then only their bits tell them
// apart.
std::string side_text(const Sample& sample, bool baseline) {
  const std::string& text = baseline ? sample.baseline : sample.candidate;
  const std::string& bits = baseline ? sample.baseline_bits : sample.candidate_bits;
  const bool is_ambiguous = sample.baseline == sample.candidate && !bits.empty();
  const std::string prefix = bits.starts_with("0x") ? "" : "0x";
  return escape_name(is_ambiguous ? fmt::format("{} {}{}", text, prefix, bits) : text);
}

std::string index_text(const Sample& sample) {
  return sample.index.empty() && sample.flat_index > 0 ? fmt::format("{}", sample.flat_index)
                                                       : format_index(sample.index);
}

using Row = std::array<std::string, 4>;

void add_samples(Page& page, const std::vector<Sample>& samples, std::size_t limit) {
  const std::size_t count = std::min(limit, samples.size());
  if (count == 0) return;
  const auto has_ulp = [](const Sample& sample) { return sample.ulp.has_value(); };
  const bool with_ulp = std::ranges::any_of(samples, has_ulp);
  std::vector<Row> rows = {{"index", "baseline", "candidate", with_ulp ? "ULP" : ""}};
  for (std::size_t i = 0; i < count; ++i) {
    const Sample& sample = samples[i];
    rows.push_back({index_text(sample),
                    side_text(sample, true),
                    side_text(sample, false),
                    sample.ulp ? format_ulp(*sample.ulp) : std::string(with_ulp ? "-" : "")});
  }
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.at(i) = std::max(widths.at(i), columns(row.at(i)));
    }
  }
  for (const Row& row : rows) {
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

void add_tensor(Page& page,
                std::string_view label,
                const comparators::TensorComparison& tensor,
                const Detail& detail) {
  const std::string type = format_tensor_type(tensor.baseline.dtype, tensor.baseline.shape);
  if (!tensor.metrics) {
    page.prose(label, fmt::format("{}: {}", type, amount_text(tensor)));
    return;
  }
  std::string text = fmt::format("{}: {}", type, share_text(*tensor.metrics));
  if (!tensor.samples.empty()) {
    text += ", first at " + index_text(tensor.samples.front());
  }
  page.prose(label, text);
  if (tensor.slice) {
    page.prose("", "in " + slice_text(tensor) + "; no others are stored");
  }
  page.prose("", escape_name(tensor.note));
  if (tensor.rule) {
    page.prose("", fmt::format("judged by rule {}: {}", *tensor.rule, tensor.policy));
  }
  add_metrics(page, *tensor.metrics, detail);
  add_samples(page, tensor.samples, detail.samples);
}

void add_named_tensor(Page& page,
                      std::string_view label,
                      const comparators::NamedTensorDifference& tensor,
                      const Detail& detail) {
  const std::string name = escape_name(tensor.name);
  if (!tensor.metrics) {
    const std::string note = tensor.note.empty() ? "digests differ" : escape_name(tensor.note);
    page.prose(label, fmt::format("{}: {}", name, note));
    return;
  }
  page.prose(label, fmt::format("{}: {}", name, share_text(*tensor.metrics)));
  page.prose("", escape_name(tensor.note));
  add_metrics(page, *tensor.metrics, detail);
  add_samples(page, tensor.samples, detail.samples);
}

// A verdict about the tensors the runs were given blames no operator, so none is laid open.
bool is_from_named(const Report& report) {
  return report.kind == DivergenceKind::kWeights || report.kind == DivergenceKind::kInputs;
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

void add_named(Page& page, const Report& report, const Detail& detail) {
  const std::size_t shown = std::min(detail.items, report.named_tensors.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const comparators::NamedTensorDifference& tensor = report.named_tensors[i];
    const bool is_input = tensor.kind == core::NamedTensorKind::kInput;
    const bool is_buffer = tensor.kind == core::NamedTensorKind::kBuffer;
    add_named_tensor(page, is_input ? "input" : (is_buffer ? "buffer" : "weight"), tensor, detail);
  }
  page.left_out(report.named_tensors.size() - shown, "-v");
}

const OpDivergence* first_missing(const Report& report, bool in_candidate) {
  for (const OpDivergence* op : every_divergence(report)) {
    const bool is_wanted = op->baseline_index.has_value() == in_candidate;
    if (op->relation == Relation::kMissing && is_wanted) return op;
  }
  return nullptr;
}

void add_missing(Page& page, const Report& report) {
  for (const bool in_candidate : {true, false}) {
    if (const auto* op = first_missing(report, in_candidate)) {
      const std::string_view label = in_candidate ? "baseline" : "candidate";
      page.add(label, op_line(*op));
    }
  }
}

// What each side ran where the other did not, with its place where the operator is at hand.
void add_parting(Page& page, const Report& report) {
  const auto& parting = *report.control_flow;
  const auto add = [&](bool in_baseline, const std::string& next) {
    const std::string_view label = in_baseline ? "baseline" : "candidate";
    const auto last = in_baseline ? parting.last_common_baseline : parting.last_common_candidate;
    const std::uint64_t index = last ? *last + 1 : 0;
    const auto* op = first_missing(report, in_baseline);
    if (op != nullptr && shown_index(*op) == index) {
      page.add(label, op_line(*op));
    } else if (next.empty()) {
      page.add(label, Line("(end of the trace)"));
    } else {
      page.add(label, Line(fmt::format("op {} {}", index, next)));
    }
  };
  add(true, parting.baseline_next);
  add(false, parting.candidate_next);
}

void add_further_causes(Page& page, const comparators::Cause& cause) {
  for (const comparators::Cause& further : cause.also) {
    page.prose(&further == cause.also.data() ? "also" : "",
               fmt::format("{}: {}; {}", further.name(), further.evidence, further.advice));
  }
  // The evidence of what is unexplained says it.
  if (cause.kind == comparators::CauseKind::kUnexplained || cause.not_recorded.empty()) return;
  page.prose("unknown", fmt::format("not recorded: {}", fmt::join(cause.not_recorded, ", ")));
}

void add_why(Page& page, const Report& report, const Detail& detail) {
  // The first reason is the verdict line itself where no divergence was judged.
  const bool is_said = report.status != Status::kDiverged && report.status != Status::kReproducible;
  std::vector<std::string> sentences;
  if (report.status == Status::kDiverged && report.first_divergence) {
    sentences.push_back(report.first_divergence->cause.evidence);
  }
  // That it does not repeat is the finding; what one of the pairs looks like comes after it.
  const auto place =
      report.kind == DivergenceKind::kUnrepeated ? sentences.begin() : sentences.end();
  sentences.insert(place,
                   report.reasons.begin() + (is_said && !report.reasons.empty() ? 1 : 0),
                   report.reasons.end());
  std::vector<std::string> told;
  for (const std::string& sentence : sentences) {
    if (sentence.empty() || std::ranges::find(told, sentence) != told.end()) continue;
    told.push_back(sentence);
  }
  page.prose("why", fmt::format("{}", fmt::join(told, "; ")));
  // What executing the operator again by itself showed.
  if (report.replay) page.list("replay", report.replay->sentences);
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
  const bool is_shown = first && (!is_from_named(report) || detail.everything);
  if (!is_shown || report.kind == DivergenceKind::kMissing) return;
  page.list("differs in", first->notes, detail.items);
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
  const std::size_t free = options.top == kDefaultTop ? 1 : left;
  consequences.resize(std::min(consequences.size(), free));
  if (!options.all) {
    chosen.insert(chosen.end(), consequences.begin(), consequences.end());
  }
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

Line item_line(const OpDivergence& op) {
  const std::string tail =
      is_consequence(op) ? consequence_text(op) : std::string(word_of(op.relation));
  return op_line(op).put(" ").put(tail, relation_role(op.relation));
}

std::string counts_text(const Report& report) {
  const auto& c = report.coverage;
  const bool first_counts = report.first_divergence.has_value();
  const auto minus_first = [&](std::uint64_t count, bool is_kind) {
    return first_counts && is_kind && count > 0 ? count - 1 : count;
  };
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
  const std::uint64_t origins = minus_first(c.origins, is_origin);
  const std::uint64_t propagated = minus_first(c.propagated, is_propagated);
  const std::uint64_t missing =
      minus_first(c.missing_in_baseline + c.missing_in_candidate, first == Relation::kMissing);
  std::vector<std::string> texts;
  for (const auto& [count, what] : {std::pair(origins, "more origin"),
                                    std::pair(propagated, "propagated"),
                                    std::pair(missing, "missing")}) {
    if (count > 0) texts.push_back(format_count(count) + " " + what);
  }
  if (origins > 1) texts.front() += "s";
  return fmt::format("{}", fmt::join(texts, ", "));
}

// `430 of 449 operators differ: 1 more origin, 429 propagated`.
std::string summary_text(const Report& report) {
  const std::uint64_t further = report.divergences_total - (report.first_divergence ? 1 : 0);
  const std::string counts = counts_text(report);
  const std::string reasons = counts.empty() ? "" : ": " + counts;
  const auto& first = report.first_divergence;
  const std::uint64_t length = report.coverage.baseline_ops;
  const bool is_counted = first && !report.resume && first->baseline_index &&
                          *first->baseline_index < length &&
                          report.coverage.missing_in_baseline == 0;
  const std::uint64_t behind = is_counted ? length - *first->baseline_index - 1 : 0;
  if (is_counted && behind >= further) {
    return fmt::format(
        "{} of {} differ{}", format_count(further), format_count(behind, "operator"), reasons);
  }
  return fmt::format("{} more{}", format_count(further), reasons);
}

void add_list(Page& page,
              const Report& report,
              const RenderOptions& options,
              const Detail& detail) {
  const std::uint64_t further = report.divergences_total - (report.first_divergence ? 1 : 0);
  if (further == 0 || report.divergences_total == 0) return;
  Chosen chosen = choose(report, options);
  if (chosen.empty() && further == 1 && already_shown(report) != nullptr) {
    return;
  }
  if (chosen.size() > detail.listed) {
    // The last of them is the worst consequence, and it stays.
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(detail.listed) - 1, chosen.end() - 1);
  }
  if (chosen.empty()) {
    page.prose("after it", summary_text(report) + (options.all ? "" : ": --all"));
    return;
  }
  page.prose("after it", summary_text(report));
  for (const OpDivergence* op : chosen) page.add("", item_line(*op));
  const std::uint64_t shown = chosen.size() + (already_shown(report) == nullptr ? 0 : 1);
  page.left_out(further - std::min<std::uint64_t>(further, shown),
                options.all ? "not kept in this report" : "--all");
}

std::string step_text(const GrowthStep& step) {
  std::string text = fmt::format("op {} {}", step.op, escape_name(step.operator_name));
  if (!step.module_path.empty()) text += fmt::format(" ({})", escape_name(step.module_path));
  return text;
}

// `12 after it, reaches 1 of 2 final values`.
std::string spread_text(const Origin& origin, std::uint64_t finals) {
  if (!origin.tainted) return "";
  return fmt::format("{} after it, {} of {} final",
                     format_count(*origin.tainted),
                     format_count(origin.outputs_total),
                     format_count(finals));
}

Line origin_line(const Origin& origin, std::uint64_t finals) {
  const std::uint64_t index = origin.baseline_index.value_or(origin.candidate_index.value_or(0));
  return op_line(index, origin.record).put("  ").put(spread_text(origin, finals), Role::kHint);
}

std::string path_text(const Origin& origin) {
  std::string text;
  for (const GrowthStep& step : origin.path) {
    text += fmt::format("{}{}", text.empty() ? "" : " -> ", step_text(step));
    if (step.out) text += fmt::format(" {:.2g}", *step.out);
    if (step.factor) text += fmt::format(" (x{:.2g})", *step.factor);
  }
  const std::size_t left = static_cast<std::size_t>(origin.path_steps) - origin.path.size();
  return left == 0 || text.empty()
             ? text
             : fmt::format("{}; {} steps not shown", text, format_count(left));
}

void add_growth(Page& page, const comparators::Growth& growth) {
  if (!growth.first || !growth.last) return;
  std::string text = fmt::format("relative L2 error {:.3g} at {}, {:.3g} at {}",
                                 growth.first->out.value_or(0),
                                 step_text(*growth.first),
                                 growth.last->out.value_or(0),
                                 step_text(*growth.last));
  if (growth.ratio) text += fmt::format(", {:.3g} times", *growth.ratio);
  text += fmt::format("; amplified by {}, damped by {}, handed on by {}, absorbed by {}",
                      format_count(growth.amplified, "operator"),
                      format_count(growth.damped),
                      format_count(growth.carried),
                      format_count(growth.absorbed));
  page.prose("growth", text);
}

void add_spread(Page& page, const Report& report, const Detail& detail, bool all) {
  const bool is_wanted = all || detail.everything || report.origins_total > 1;
  if (!is_wanted || report.origins.empty()) return;
  const std::size_t shown =
      all ? report.origins.size() : std::min(detail.items, report.origins.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.add(i == 0 ? "origins" : "", origin_line(report.origins[i], report.final_values));
    if (detail.everything) page.prose("", path_text(report.origins[i]));
  }
  page.left_out(report.origins_total - shown, all ? "not told apart" : "--all");
  if (detail.everything) add_growth(page, report.growth);
}

/// What a terminal shows at once, richest first.
constexpr auto kLevels = std::to_array<Detail>(
    {{}, {false, 3, 3, 5}, {false, 3, 2, 3}, {false, 2, 2, 2}, {false, 1, 2, 1}, {false, 0, 1, 1}});
constexpr Detail kEverything{true, 10, SIZE_MAX, SIZE_MAX};

// Every kind of state with its word; what is right in one line.
void add_resume(Page& page, const Report& report) {
  if (!report.resume) return;
  const comparators::ResumeSummary& resume = *report.resume;
  std::string text = fmt::format("{} of the checkpoint {}; operators from op {} | {} on",
                                 format_count(resume.files, "file"),
                                 escape_name(checkpoint_text(resume)),
                                 resume.baseline_op,
                                 resume.candidate_op);
  if (resume.first_calls > 0) {
    text += fmt::format("; {} of its first step alone, as a new process makes what the other had",
                        format_count(resume.first_calls, "operator"));
  }
  page.prose("resume", text);
  std::vector<std::string> right;
  for (const comparators::RestoredState& state : resume.states) {
    if (state.outcome == comparators::Restored::kRight) {
      right.emplace_back(comparators::state_name(state.kind));
    } else {
      page.prose("", escape_name(restored_text(state)));
    }
  }
  if (!right.empty()) page.prose("", fmt::format("right: {}", fmt::join(right, ", ")));
}

Page page_with(const Report& report, const RenderOptions& options, const Detail& detail) {
  Page page;
  if (options.name_pair) page.prose("pair", dumps_text(report));
  add_returned(page, report);
  add_resume(page, report);
  add_why(page, report, detail);
  add_passes(page, report);
  add_evidence(page, report, detail);
  add_spread(page, report, detail, options.all);
  add_unfinished(page, report, options.logs);
  add_list(page, report, options, detail);
  add_gate(page, options.gate, detail);
  add_coverage(page, report, detail);
  add_repeat(page, report, detail);
  if (detail.everything) add_verbose(page, report);
  return page;
}

/// Under its verdict; on a terminal the richest that fits its lines, where nobody asked for more.
std::string body_of(const Report& report, const RenderOptions& options, std::size_t lines) {
  const auto at = [&](const Detail& detail) {
    return page_with(report, options, detail)
        .str(options.color, options.link_host, options.columns);
  };
  if (options.verbosity > 0) return at(kEverything);
  if (options.all || options.top != kDefaultTop) {
    Detail detail;
    detail.listed = SIZE_MAX;
    return at(detail);
  }
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

std::string render_text(const Report& report, const RenderOptions& options) {
  std::string out = verdict_line(report).str(options.color, options.link_host) + "\n";
  if (options.verbosity < 0) return out;
  const std::vector<std::string> commands = next_commands(report, options);
  out += body_of(report, options, 1 + commands.size());
  for (const std::string& command : commands) {
    out += Line("next: " + command, Role::kHint).str(options.color) + "\n";
  }
  return out;
}

}  // namespace repro_check::cmd
