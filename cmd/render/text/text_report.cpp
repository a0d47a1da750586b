// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cmd/render/page.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/text/tensor_section.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::GrowthStep;
using comparators::Metric;
using comparators::OpDivergence;
using comparators::Origin;
using comparators::Relation;
using comparators::Report;
using comparators::Sample;
using comparators::Status;
using comparators::TensorMetrics;

void add_part(std::string& text, const std::string& part, std::string_view separator) {
  text.append(text.empty() || part.empty() ? "" : separator).append(part);
}

std::string ulp_text(const TensorMetrics& m) {
  if (!m.ulp_max) {
    return {};
  }
  const std::string mean = m.ulp_mean ? ", mean " + format_error(*m.ulp_mean) : "";
  return fmt::format("ULP max {}{}", format_ulp(*m.ulp_max), mean);
}

std::string sizes_text(const TensorMetrics& m) {
  std::string text = ulp_text(m);
  if (m.max_abs_exact) {
    add_part(text, fmt::format("abs max {}", *m.max_abs_exact), " | ");
  } else if (m.max_abs) {
    add_part(text, "abs max " + format_error(*m.max_abs), " | ");
  }
  if (m.max_rel) {
    add_part(text, "rel max " + format_error(*m.max_rel), " | ");
  }
  return text;
}

// Classes of elements that no error size covers, by name, where there are any.
std::string classes_text(const TensorMetrics& m) {
  const std::array<std::pair<const char*, std::uint64_t>, 8> classes = {{
      {"NaN in baseline only", m.nan_baseline},
      {"NaN in candidate only", m.nan_candidate},
      {"Inf of opposite sign", m.inf_sign},
      {"Inf in baseline only", m.inf_baseline},
      {"Inf in candidate only", m.inf_candidate},
      {"NaN payload", m.nan_both_payload},
      {"sign of zero", m.zero_sign_only},
      {"non-canonical bool", m.noncanonical_bool},
  }};
  std::string text;
  for (const auto& [name, count] : classes) {
    if (count > 0) {
      add_part(text, fmt::format("{} {}", name, format_count(count)), " | ");
    }
  }
  return text;
}

using Items = std::vector<std::string>;

void put_real(Items& items, const char* name, const Metric& metric) {
  if (metric) {
    items.push_back(fmt::format("{} {}", name, format_error(*metric)));
  }
}

void put_count(Items& items, const char* name, std::uint64_t count) {
  if (count > 0) {
    items.push_back(fmt::format("{} {}", name, format_count(count)));
  }
}

// Upper bounds, within a factor of 2.
void put_percentiles(Items& items, const TensorMetrics& m) {
  if (!m.rel_hist) {
    return;
  }
  for (const auto& [name, share] : {std::pair{"50 %", 0.5}, std::pair{"99 %", 0.99}}) {
    const auto bounds = comparators::rel_percentile(*m.rel_hist, share);
    if (bounds && bounds->at_most > 0) {
      items.push_back(fmt::format("rel of {} below {}", name, format_error(bounds->at_most)));
    }
  }
}

// Buckets that hold a difference.
void put_ulps(Items& items, const TensorMetrics& m) {
  if (!m.ulp_hist) {
    return;
  }
  for (std::size_t i = 1; i < m.ulp_hist->size(); ++i) {
    if (m.ulp_hist->at(i) > 0) {
      items.push_back(fmt::format(
          "ULP {}: {}", comparators::kUlpBuckets.at(i), format_count(m.ulp_hist->at(i))));
    }
  }
}

// What the short form leaves out.
Items further_metrics(const TensorMetrics& m) {
  Items items = {"finite pairs " + format_count(m.n_finite),
                 "beyond policy " + format_count(m.n_beyond)};
  put_real(items, "abs mean", m.mean_abs);
  put_real(items, "rel mean", m.mean_rel);
  put_real(items, "rel max where baseline is not 0", m.max_rel_finite);
  if (m.zero_baseline > 0) {
    items.push_back("baseline 0 and candidate not " + format_count(m.zero_baseline));
  }
  put_percentiles(items, m);
  put_count(items, "0 on both sides", m.zeros_both);
  put_count(items, "signs flipped", m.flips);
  put_count(items, "subnormal against 0", m.flushed);
  put_count(items, "saturated", m.saturated);
  put_count(items, "False to True", m.false_to_true);
  put_count(items, "True to False", m.true_to_false);
  put_real(items, "RMSE", m.rmse);
  put_real(items, "NMSE", m.nmse);
  put_real(items, "L2 relative", m.l2_rel);
  put_real(items, "cosine", m.cosine);
  put_real(items, "norm ratio", m.norm_ratio);
  put_real(items, "share within 1/1000", m.within_1e3);
  put_real(items, "share within 5/1000", m.within_5e3);
  put_real(items, "rtol that would pass", m.rtol_needed);
  put_real(items, "atol that would pass", m.atol_needed);
  if (m.rtol_given_atol != m.rtol_needed) {
    put_real(items, "rtol that would pass with this atol", m.rtol_given_atol);
  }
  if (m.atol_given_rtol != m.atol_needed) {
    put_real(items, "atol that would pass with this rtol", m.atol_given_rtol);
  }
  put_ulps(items, m);
  return items;
}

void add_metrics(Page& page, const TensorMetrics& m, const Detail& detail) {
  page.prose("", sizes_text(m));
  page.prose("", classes_text(m));
  if (detail.everything) page.prose("", fmt::format("{}", fmt::join(further_metrics(m), " | ")));
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
  if (count == 0) {
    return;
  }
  const auto has_ulp = [](const Sample& sample) { return sample.ulp.has_value(); };
  const bool with_ulp = std::any_of(samples.begin(), samples.end(), has_ulp);
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
  std::size_t shown = 0;
  for (const auto& output : op.outputs) {
    if (!detail.everything && &output != leading) {
      continue;
    }
    add_tensor(page, "output " + escape_name(output.baseline.slot), output, detail);
    ++shown;
  }
  const std::size_t left = op.outputs.size() - shown;
  if (left > 0) {
    page.add("",
             Line(fmt::format("... and {} more: -v", format_count(left, "output")), Role::kHint));
  }
}

void add_inputs(Page& page, const OpDivergence& op, const Detail& detail) {
  if (!detail.everything) {
    return;
  }
  for (const auto& input : op.inputs) {
    add_tensor(page, "input " + escape_name(input.baseline.slot), input, detail);
  }
}

void add_notes(Page& page, const OpDivergence& op, const Detail& detail) {
  for (std::size_t i = 0; i < std::min(detail.items, op.notes.size()); ++i) {
    page.prose(i == 0 ? "differs in" : "", op.notes[i]);
  }
}

void add_named(Page& page, const Report& report, const Detail& detail) {
  std::size_t shown = 0;
  for (const auto& tensor : report.named_tensors) {
    if (shown == detail.items) {
      break;
    }
    const bool is_input = tensor.kind == core::NamedTensorKind::kInput;
    const bool is_buffer = tensor.kind == core::NamedTensorKind::kBuffer;
    add_named_tensor(page, is_input ? "input" : (is_buffer ? "buffer" : "weight"), tensor, detail);
    ++shown;
  }
  const std::size_t left = report.named_tensors.size() - shown;
  if (left > 0) {
    page.add("", Line(fmt::format("... and {} more: -v", format_count(left)), Role::kHint));
  }
}

const OpDivergence* first_missing(const Report& report, bool in_candidate) {
  const auto is_wanted = [&](const OpDivergence& op) {
    return op.relation == Relation::kMissing && op.baseline_index.has_value() == in_candidate;
  };
  if (report.first_divergence && is_wanted(*report.first_divergence)) {
    return &*report.first_divergence;
  }
  const auto& all = report.divergences;
  const auto found = std::find_if(all.begin(), all.end(), is_wanted);
  return found == all.end() ? nullptr : &*found;
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
  std::string missing;
  for (const std::string& what : cause.not_recorded) {
    missing.append(missing.empty() ? "" : ", ").append(escape_name(what));
  }
  const std::string unknown = missing.empty() ? "" : "not recorded: " + missing;
  // The evidence of what is unexplained says it.
  const bool is_said = cause.kind == comparators::CauseKind::kUnexplained;
  page.prose("unknown", is_said ? "" : unknown);
}

// What executing the operator again by itself showed.
void add_replay(Page& page, const comparators::ReplayEvidence& replay) {
  for (const std::string& sentence : replay.sentences) {
    page.prose(&sentence == replay.sentences.data() ? "replay" : "", sentence);
  }
}

Page why_section(const Report& report, const Detail& detail) {
  Page page;
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
  if (report.replay) add_replay(page, *report.replay);
  if (detail.everything && report.first_divergence) {
    add_further_causes(page, report.first_divergence->cause);
  }
  return page;
}

Page evidence_section(const Report& report, const Detail& detail) {
  Page page;
  if (is_from_named(report) || detail.everything) {
    add_named(page, report, detail);
  }
  if (report.control_flow && report.kind == DivergenceKind::kControlFlow) {
    add_parting(page, report);
  } else if (report.kind == DivergenceKind::kMissing) {
    add_missing(page, report);
  }
  const auto& first = report.first_divergence;
  const bool is_shown = first && (!is_from_named(report) || detail.everything);
  if (is_shown && report.kind != DivergenceKind::kMissing) {
    add_notes(page, *first, detail);
    add_inputs(page, *first, detail);
    add_outputs(page, *first, detail);
  }
  return page;
}

using Chosen = std::vector<const OpDivergence*>;

bool is_consequence(const OpDivergence& op) { return op.relation == Relation::kPropagated; }

// Of missing operators, one a side stands in the evidence already.
const OpDivergence* already_shown(const Report& report) {
  const auto& first = report.first_divergence;
  if (report.kind != DivergenceKind::kMissing || !first || first->relation != Relation::kMissing) {
    return nullptr;
  }
  const auto is_other_side = [&](const OpDivergence& op) {
    return op.relation == Relation::kMissing &&
           op.baseline_index.has_value() != first->baseline_index.has_value();
  };
  const auto& all = report.divergences;
  const auto found = std::find_if(all.begin(), all.end(), is_other_side);
  return found == all.end() ? nullptr : &*found;
}

// The first `top` that are no consequence of another, then the worst consequences: one of them, or
// as many as a `top` of the user's own leaves room for.
Chosen choose(const Report& report, const RenderOptions& options) {
  Chosen chosen;
  Chosen consequences;
  const OpDivergence* shown = already_shown(report);
  for (const OpDivergence& op : report.divergences) {
    if (&op == shown) {
      continue;
    }
    if (options.all || (!is_consequence(op) && chosen.size() < options.top)) {
      chosen.push_back(&op);
    } else if (is_consequence(op)) {
      consequences.push_back(&op);
    }
  }
  std::stable_sort(consequences.begin(), consequences.end(), [](const auto* a, const auto* b) {
    return a->severity > b->severity;
  });
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
  if (output == nullptr || !output->metrics) {
    return "propagated";
  }
  const auto& m = *output->metrics;
  if (m.nan_baseline + m.nan_candidate > 0) {
    return "NaN on one side";
  }
  if (m.max_abs_exact) {
    return fmt::format("abs max {}", *m.max_abs_exact);
  }
  return m.max_abs ? "abs max " + format_error(*m.max_abs) : "propagated";
}

Line item_line(const OpDivergence& op) {
  const std::string tail =
      is_consequence(op) ? consequence_text(op) : std::string(relation_name(op.relation));
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
  std::string text;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(count), what);
    }
  };
  add(origins, origins == 1 ? "more origin" : "more origins");
  add(propagated, "propagated");
  add(missing, "missing");
  return text;
}

// `430 of 449 operators differ: 1 more origin, 429 propagated`.
std::string summary_text(const Report& report) {
  const std::uint64_t further = report.divergences_total - (report.first_divergence ? 1 : 0);
  const std::string counts = counts_text(report);
  const std::string reasons = counts.empty() ? "" : ": " + counts;
  const auto& first = report.first_divergence;
  const std::uint64_t length = report.coverage.baseline_ops;
  const bool is_counted = first && first->baseline_index && *first->baseline_index < length &&
                          report.coverage.missing_in_baseline == 0;
  const std::uint64_t behind = is_counted ? length - *first->baseline_index - 1 : 0;
  if (is_counted && behind >= further) {
    return fmt::format(
        "{} of {} differ{}", format_count(further), format_count(behind, "operator"), reasons);
  }
  return fmt::format("{} more{}", format_count(further), reasons);
}

Page list_section(const Report& report, const RenderOptions& options, const Detail& detail) {
  Page page;
  const std::uint64_t further = report.divergences_total - (report.first_divergence ? 1 : 0);
  if (further == 0 || report.divergences_total == 0) {
    return page;
  }
  Chosen chosen = choose(report, options);
  if (chosen.empty() && further == 1 && already_shown(report) != nullptr) {
    return page;
  }
  if (chosen.size() > detail.listed) {
    // The last of them is the worst consequence, and it stays.
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(detail.listed) - 1, chosen.end() - 1);
  }
  if (chosen.empty()) {
    page.prose("after it", summary_text(report) + (options.all ? "" : ": --all"));
    return page;
  }
  page.prose("after it", summary_text(report));
  for (const OpDivergence* op : chosen) {
    page.add("", item_line(*op));
  }
  const std::uint64_t shown = chosen.size() + (already_shown(report) == nullptr ? 0 : 1);
  const std::uint64_t left = further - std::min<std::uint64_t>(further, shown);
  if (left > 0) {
    const std::string_view how = options.all ? "not kept in this report" : "--all";
    page.add("", Line(fmt::format("... and {} more: {}", format_count(left), how), Role::kHint));
  }
  return page;
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

Page spread_section(const Report& report, const Detail& detail, bool all) {
  Page page;
  const bool is_wanted = all || detail.everything || report.origins_total > 1;
  if (!is_wanted || report.origins.empty()) return page;
  const std::size_t shown =
      all ? report.origins.size() : std::min(detail.items, report.origins.size());
  for (std::size_t i = 0; i < shown; ++i) {
    page.add(i == 0 ? "origins" : "", origin_line(report.origins[i], report.final_values));
    if (detail.everything) page.prose("", path_text(report.origins[i]));
  }
  const std::uint64_t left = report.origins_total - shown;
  if (left > 0) {
    const std::string_view how = all ? "not told apart" : "--all";
    page.add("", Line(fmt::format("... and {} more: {}", format_count(left), how), Role::kHint));
  }
  if (detail.everything) add_growth(page, report.growth);
  return page;
}

/// What a terminal shows at once, richest first.
constexpr auto kLevels = std::to_array<Detail>(
    {{}, {false, 3, 3, 5}, {false, 3, 2, 3}, {false, 2, 2, 2}, {false, 1, 2, 1}, {false, 0, 1, 1}});
constexpr Detail kEverything{true, 10, SIZE_MAX, SIZE_MAX};

Page page_with(const comparators::Report& report,
               const RenderOptions& options,
               const Detail& detail) {
  Page page;
  if (options.name_pair) page.prose("pair", dumps_text(report));
  page.append(returned_section(report));
  page.append(why_section(report, detail));
  page.append(passes_section(report));
  page.append(evidence_section(report, detail));
  page.append(spread_section(report, detail, options.all));
  page.append(runs_section(report, options.logs));
  page.append(list_section(report, options, detail));
  page.append(gate_section(options.gate, detail));
  page.append(coverage_section(report, detail));
  page.append(repeat_section(report, detail));
  if (detail.everything) page.append(verbose_section(report));
  return page;
}

/// Under its verdict; on a terminal the richest that fits its lines, where nobody asked for more.
std::string body_of(const comparators::Report& report,
                    const RenderOptions& options,
                    std::size_t lines) {
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

std::string render_text(const comparators::Report& report, const RenderOptions& options) {
  std::string out = verdict_line(report).str(options.color, options.link_host) + "\n";
  if (options.verbosity < 0) return out;
  const std::vector<std::string> commands = next_commands(report, options);
  out += body_of(report, options, 1 + commands.size());
  for (const std::string& command : commands) {
    out += Line("next: " + command, Role::kHint).str(options.color) + "\n";
  }
  return out;
}

}  // namespace

}  // namespace repro_check::cmd
