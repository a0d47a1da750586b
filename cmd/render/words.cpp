// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "cmd/render/text.h"
#include "comparators/measure/policy.h"
#include "core/content/content_slice.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::Relation;
using comparators::Status;
using comparators::TensorOutcome;

void add_part(std::string& text, std::string_view part) {
  text.append(text.empty() ? "" : ", ").append(part);
}

// What no size of an error can say; the first that holds.
std::string special_text(const comparators::TensorMetrics& m) {
  if (m.nan_baseline > 0) {
    return m.nan_candidate > 0 ? "NaN on different sides" : "NaN in baseline only";
  }
  if (m.nan_candidate > 0) {
    return "NaN in candidate only";
  }
  if (m.inf_sign > 0) {
    return "Inf signs differ";
  }
  if (m.inf_baseline > 0) {
    return m.inf_candidate > 0 ? "Inf on different sides" : "Inf in baseline only";
  }
  if (m.inf_candidate > 0) {
    return "Inf in candidate only";
  }
  if (m.n_diff == 0) {
    return {};
  }
  if (m.n_diff == m.zero_sign_only) {
    return "only zero signs differ";
  }
  if (m.n_diff == m.nan_both_payload) {
    return "only NaN payload differs";
  }
  return m.n_diff == m.noncanonical_bool ? "only non-canonical bool differs" : "";
}

std::string size_text(const comparators::TensorMetrics& m) {
  if (m.ulp_max && *m.ulp_max > 0) {
    return fmt::format("max {} ULP", format_ulp(*m.ulp_max));
  }
  if (m.max_abs_exact && *m.max_abs_exact > 0) {
    return fmt::format("max absolute {}", *m.max_abs_exact);
  }
  if (m.max_abs && *m.max_abs > 0) {
    return fmt::format("max absolute {}", format_error(*m.max_abs));
  }
  return {};
}

// How far the relative tolerance would have to go, beside the absolute one of the policy.
std::string needed_text(const comparators::TensorComparison& tensor) {
  const comparators::TensorMetrics& m = *tensor.metrics;
  const bool is_asked =
      tensor.outcome == TensorOutcome::kBeyond &&
      comparators::described_policy(tensor.policy) == configs::PolicyKind::kTolerance;
  if (!is_asked || !m.rtol_given_atol || !special_text(m).empty()) {
    return {};
  }
  if (std::isfinite(*m.rtol_given_atol)) {
    return fmt::format("needs rtol {}", *m.rtol_given_atol);
  }
  return m.zero_baseline == 0
             ? ""
             : fmt::format("relative inf (zero baseline {})", format_count(m.zero_baseline));
}

/// Of TensorOutcome: what is beyond the policy says most.
int weight(TensorOutcome outcome) noexcept {
  constexpr std::array kWeights{0, 1, 4, 3, 2, 0};
  return kWeights.at(static_cast<std::size_t>(outcome));
}

}  // namespace

std::string_view verdict_word(Status status) noexcept {
  return name_of(status,
                 {"REPRODUCIBLE",
                  "PARTIAL",
                  "DIVERGED",
                  "DAMAGED",
                  "INCOMPLETE",
                  "NOT COMPARABLE",
                  "NOTHING COMPARED",
                  "RUN FAILED",
                  "OBSERVER EFFECT",
                  "STALE BASELINE",
                  "NO BASELINE"});
}

Role verdict_role(Status status) noexcept {
  if (status == Status::kReproducible) return Role::kGood;
  const bool is_bad = status == Status::kDiverged || status == Status::kObserverEffect;
  return is_bad ? Role::kBad : Role::kTrouble;
}

std::string_view status_name(Status status) noexcept {
  return name_of(status,
                 {"reproducible",
                  "partial",
                  "diverged",
                  "damaged",
                  "incomplete",
                  "not_comparable",
                  "nothing_compared",
                  "run_failed",
                  "observer_effect",
                  "stale_baseline",
                  "no_baseline"});
}

std::string_view kind_name(DivergenceKind kind) noexcept {
  return name_of(kind,
                 {"",
                  "origin",
                  "inputs",
                  "weights",
                  "control_flow",
                  "missing",
                  "mismatch",
                  "uninitialised",
                  "rng",
                  "growth",
                  "unrepeated",
                  "expectation"});
}

std::string_view relation_name(Relation relation) noexcept {
  return name_of(relation, {"origin", "propagated", "mismatch", "missing"});
}

Role relation_role(Relation relation) noexcept {
  if (relation == Relation::kPropagated) {
    return Role::kPropagated;
  }
  return relation == Relation::kMissing ? Role::kMissing : Role::kOrigin;
}

std::string operator_text(const core::OpRecord& record) {
  return record.op == nullptr || record.op->name.empty() ? "(no operator)" : record.op->name;
}

Line op_line(const comparators::OpDivergence& op) {
  return op_line(shown_index(op), shown_record(op));
}

Line op_line(std::uint64_t index, const core::OpRecord& record) {
  Line line(fmt::format("op {} ", index));
  line.put(operator_text(record), Role::kOperator);
  const std::string place = raw_place_text(record.site.get());
  if (place.empty()) {
    return line;
  }
  const core::SourceFrame* frame =
      record.site == nullptr ? nullptr : core::display_frame(*record.site);
  const std::string_view file = frame == nullptr ? std::string_view() : frame->file;
  return line.put(" (").link(place, Role::kPlace, file).put(")");
}

std::string amount_text(const comparators::TensorMetrics& metrics, bool judged_by_policy) {
  const bool is_partly_within = judged_by_policy && metrics.n_beyond < metrics.n_diff;
  std::string text = fmt::format("{} of {}{}",
                                 format_count(is_partly_within ? metrics.n_beyond : metrics.n_diff),
                                 format_count(metrics.elements, "element"),
                                 is_partly_within ? " beyond tolerance" : "");
  for (const std::string& part : {special_text(metrics), size_text(metrics)}) {
    if (!part.empty()) {
      add_part(text, part);
    }
  }
  return text;
}

std::string slice_text(const comparators::TensorComparison& tensor) {
  if (!tensor.slice) {
    return {};
  }
  const auto total = static_cast<std::uint64_t>(core::element_count(tensor.baseline.shape));
  return core::describe_slice(*tensor.slice, total);
}

std::string amount_text(const comparators::TensorComparison& tensor) {
  const std::string& note = tensor.note;
  if (tensor.outcome == TensorOutcome::kMismatch) {
    return note.empty() ? "dtype, shape or layout differs" : note;
  }
  if (!tensor.metrics) {
    return note.empty() ? "digests differ, size unknown" : note;
  }
  std::string text = amount_text(*tensor.metrics, tensor.outcome == TensorOutcome::kBeyond);
  // What no size can say is said already.
  if (!note.empty() && note != special_text(*tensor.metrics)) add_part(text, note);
  if (const std::string needed = needed_text(tensor); !needed.empty()) {
    add_part(text, needed);
  }
  const std::string slice = slice_text(tensor);
  if (!slice.empty()) {
    add_part(text, "in " + slice);
  }
  return text;
}

const comparators::TensorComparison* leading_output(const comparators::OpDivergence& op) noexcept {
  const auto heavier = [](const auto& left, const auto& right) {
    return weight(left.outcome) < weight(right.outcome);
  };
  const auto found = std::max_element(op.outputs.begin(), op.outputs.end(), heavier);
  return found == op.outputs.end() ? nullptr : &*found;
}

std::vector<std::string> non_finite_notes(const comparators::Report& report) {
  std::vector<std::string> notes;
  std::ranges::copy_if(report.warnings, std::back_inserter(notes), [](const std::string& text) {
    return text.starts_with("NaN ") || text.starts_with("Infinity ");
  });
  return notes;
}

std::string returned_amount(const comparators::OpDivergence& op) {
  if (const auto* output = leading_output(op)) {
    const bool is_here = !output->baseline.slot.empty();
    return fmt::format(
        "{}: {}", is_here ? output->baseline.slot : output->candidate.slot, amount_text(*output));
  }
  return op.notes.empty() ? op.cause.evidence : op.notes.front();
}

std::string op_amount(const comparators::OpDivergence& op) {
  if (const auto* output = leading_output(op)) {
    return amount_text(*output);
  }
  return op.notes.empty() ? "results differ" : op.notes.front();
}

std::string_view verified_text(bool whole) noexcept {
  return whole ? "every content, the index and the manifest match their digests"
               : "every content of its own, the index and the manifest match their digests";
}

}  // namespace repro_check::cmd
