// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"
#include "cmd/render/text/tensor_section.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::Status;

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

}  // namespace

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

}  // namespace repro_check::cmd
