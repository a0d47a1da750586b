// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "comparators/measure/policy.h"

namespace repro_check::cmd {
namespace {

using comparators::CauseKind;
using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::Status;

std::string run_names(const Report& report) {
  std::string names;
  for (const auto& run : report.runs) {
    names.append(names.empty() ? "" : ", ").append(run.name);
  }
  return names;
}

void put_pass(Line& line, const Report& report) {
  const auto& c = report.coverage;
  // What an expected divergence hides stays in the sum.
  const std::string of = format_count(c.compared + c.not_judged, "operator");
  if (c.within_policy > 0) {
    using configs::PolicyKind;
    const auto policy = comparators::described_policy(report.policy);
    const bool by_element = policy == PolicyKind::kTolerance || policy == PolicyKind::kBitwise;
    line.put(fmt::format(" within policy: {} of {} bit-identical, {} within {}",
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
    line.put(fmt::format(": {} of {} bit-identical", format_count(c.equal), of));
  }
  if (c.not_judged > 0) line.put(fmt::format(", {} not judged", format_count(c.not_judged)));
  if (report.repeat) {
    line.put(fmt::format(" ({})", format_count(report.repeat->runs.size(), "run")));
  } else if (!report.runs.empty()) {
    line.put(" (" + run_names(report) + ")");
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

std::string_view kind_suffix(DivergenceKind kind) {
  switch (kind) {
    case DivergenceKind::kUninitialised:
      return ", reads uninitialised memory";
    case DivergenceKind::kRng:
      return ", generators stood apart";
    default:
      return {};
  }
}

void put_relation(Line& line, Relation relation) {
  line.put(", ").put(relation_name(relation), relation_role(relation));
}

void put_at_op(Line& line, const OpDivergence& op, DivergenceKind kind) {
  line.put(" at ").put(op_line(op));
  const bool is_shifted =
      op.baseline_index && op.candidate_index && *op.baseline_index != *op.candidate_index;
  line.put(is_shifted ? fmt::format(" (op {} in candidate)", *op.candidate_index) : "");
  line.put(": " + op_amount(op));
  put_relation(line, op.relation);
  line.put(op.cause.kind == CauseKind::kOverflow ? ", overflow" : "").put(kind_suffix(kind));
}

// Weights or inputs: no operator is to blame, so the line names the tensor first.
void put_from_named(Line& line, const Report& report) {
  const bool is_weights = report.kind == DivergenceKind::kWeights;
  line.put(report.from_accepted ? " in" : " from").put(is_weights ? " the weights" : " the inputs");
  const auto is_wanted = [&](const auto& tensor) {
    return (tensor.kind != core::NamedTensorKind::kInput) == is_weights;
  };
  const auto& all = report.named_tensors;
  const auto first = std::find_if(all.begin(), all.end(), is_wanted);
  if (first != all.end()) {
    line.put(": ").put(first->name, Role::kPlace);
    if (!first->note.empty() || !first->metrics) {
      line.put(", " + (first->note.empty() ? "digests differ" : first->note));
    } else {
      line.put(", " + amount_text(*first->metrics, false));
    }
    const auto count = std::count_if(all.begin(), all.end(), is_wanted);
    line.put(count > 1 ? fmt::format(", and {} more", count - 1) : "");
  }
  if (report.first_divergence) {
    line.put("; first reached ").put(op_line(*report.first_divergence));
    put_relation(line, report.first_divergence->relation);
  } else if (first == all.end() && !report.reasons.empty()) {
    line.put(": " + report.reasons.front());
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
  if (cause.kind == CauseKind::kReordered) {
    return ", called in another order";
  }
  if (cause.kind == CauseKind::kLoop || cause.kind == CauseKind::kDecomposed) {
    return "; " + cause.evidence.substr(0, cause.evidence.find(';'));
  }
  return {};
}

void put_control_flow(Line& line, const Report& report) {
  line.put(" in control flow");
  if (!report.control_flow) {
    return;
  }
  const auto& parting = *report.control_flow;
  if (parting.last_common_baseline) {
    line.put(" after ").put(op_line(*parting.last_common_baseline, parting.last_common));
  } else {
    line.put(" at the first operator");
  }
  line.put(": " + ran_text("baseline", parting.baseline_next) + ", " +
           ran_text("candidate", parting.candidate_next));
  if (report.first_divergence) {
    line.put(structure_text(report.first_divergence->cause));
  }
}

void put_missing(Line& line, const Report& report) {
  const auto& c = report.coverage;
  line.put(fmt::format(": {} only in baseline, {} only in candidate",
                       format_count(c.missing_in_candidate, "operator"),
                       format_count(c.missing_in_baseline)));
  if (report.first_divergence) {
    const OpDivergence& op = *report.first_divergence;
    line.put("; first ").put(op_line(op));
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

void put_returned(Line& line, const OpDivergence& op) {
  line.put(" in what the model returns: ").put(returned_amount(op));
  put_relation(line, op.relation);
}

void put_divergence(Line& line, const Report& report) {
  if (report.from_accepted) line.put(" from the baseline");
  if (report.first_divergence && core::is_returned(shown_record(*report.first_divergence))) {
    put_returned(line, *report.first_divergence);
    return;
  }
  switch (report.kind) {
    case DivergenceKind::kInputs:
    case DivergenceKind::kWeights:
      put_from_named(line, report);
      return;
    case DivergenceKind::kControlFlow:
      put_control_flow(line, report);
      return;
    case DivergenceKind::kMissing:
      put_missing(line, report);
      return;
    case DivergenceKind::kGrowth:
      put_growth(line, report);
      return;
    case DivergenceKind::kUnrepeated:
      put_unrepeated(line, report);
      return;
    case DivergenceKind::kExpectation:
      line.put(report.reasons.empty() ? "" : ": " + report.reasons.front());
      return;
    default:
      break;
  }
  if (report.first_divergence) {
    put_at_op(line, *report.first_divergence, report.kind);
  } else if (!report.reasons.empty()) {
    line.put(": " + report.reasons.front());
  }
}

std::string failed_run_text(const Report& report) {
  for (const auto& run : report.runs) {
    if (run.status == "complete") {
      continue;
    }
    const std::string how = run.signal.empty() ? run.message : "killed by " + run.signal;
    return run.name + ": " + (how.empty() ? run.status : how);
  }
  return "see the log of the run";
}

void put_trouble(Line& line, const Report& report) {
  if (!report.reasons.empty()) {
    line.put(": " + report.reasons.front());
  } else if (report.status == Status::kNothingCompared) {
    line.put(": no operator was compared");
  } else {
    line.put(": " + failed_run_text(report));
  }
}

}  // namespace

Line verdict_line(const Report& report) {
  Line line(verdict_word(report.status), verdict_role(report.status));
  if (report.status == Status::kReproducible) {
    put_pass(line, report);
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
