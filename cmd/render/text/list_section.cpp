// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;

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

}  // namespace

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

}  // namespace repro_check::cmd
