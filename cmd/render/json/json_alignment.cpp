// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_alignment.h"

#include <algorithm>

#include "cmd/render/json/json_op.h"

namespace repro_check::cmd {
namespace {

using comparators::MatchedBy;
using comparators::RankDivergence;
using comparators::Report;

std::string module_path(const core::OpRecord& record) {
  return record.site == nullptr ? "" : record.site->module_path;
}

std::string operator_name(const core::OpRecord& record) {
  return record.op == nullptr ? "" : record.op->full_name();
}

Json json_name_map(const comparators::NameMapUse& map) {
  if (map.entries.empty()) return nullptr;
  Json entries = Json::array();
  for (const comparators::NameMapUse::Entry& entry : map.entries) {
    entries.push_back({{"line", json_integer(entry.line)},
                       {"kind", json_text(entry.kind)},
                       {"pattern", json_text(entry.pattern)},
                       {"replacement", json_text(entry.replacement)},
                       {"operators", json_integer(entry.operators)},
                       {"tensors", json_integer(entry.tensors)}});
  }
  return {{"file", json_text(map.file)}, {"entries", std::move(entries)}};
}

Json json_decision(const std::optional<comparators::Decision>& decision) {
  if (!decision) return nullptr;
  return {{"op_index",
           {{"baseline", json_integer(decision->baseline_index)},
            {"candidate", json_integer(decision->candidate_index)}}},
          {"operator", json_text(operator_name(decision->op))},
          {"module", json_text(module_path(decision->op))},
          {"value",
           {{"baseline", json_text(decision->baseline)},
            {"candidate", json_text(decision->candidate)}}},
          {"source", json_source(decision->op)}};
}

}  // namespace

Json json_matched_by(MatchedBy how) {
  switch (how) {
    case MatchedBy::kNone:
      return nullptr;
    case MatchedBy::kPosition:
      return "position";
    case MatchedBy::kLcs:
      return "lcs";
    case MatchedBy::kAnchor:
      return "anchor";
    case MatchedBy::kPartial:
      return "partial";
    case MatchedBy::kMap:
      return "map";
    case MatchedBy::kOrder:
      break;
  }
  return "order";
}

Json json_alignment(const Report& report) {
  const comparators::AlignmentSummary& alignment = report.alignment;
  Json matched;
  matched["position"] = json_integer(alignment.position);
  matched["lcs"] = json_integer(alignment.lcs);
  matched["anchor"] = json_integer(alignment.anchor);
  matched["partial"] = json_integer(alignment.partial);
  matched["map"] = json_integer(alignment.map);
  matched["order"] = json_integer(alignment.order);
  Json out;
  out["mode"] = alignment.by_position ? "strict" : "keyed";
  out["matched"] = std::move(matched);
  out["reordered"] = json_integer(alignment.reordered);
  out["left_out"] = Json{{"baseline", json_integer(alignment.left_out_baseline)},
                         {"candidate", json_integer(alignment.left_out_candidate)}};
  out["name_map"] = json_name_map(report.name_map);
  out["gave_up"] = alignment.gave_up;
  out["work"] = json_integer(alignment.work);
  out["work_limit"] = json_integer(alignment.work_limit);
  return out;
}

Json json_control_flow(const Report& report) {
  if (!report.control_flow) {
    return nullptr;
  }
  const comparators::ControlFlow& parting = *report.control_flow;
  Json out;
  out["last_common"] = Json{{"baseline", json_integer(parting.last_common_baseline)},
                            {"candidate", json_integer(parting.last_common_candidate)}};
  out["next"] = Json{{"baseline", json_text_or_null(parting.baseline_next)},
                     {"candidate", json_text_or_null(parting.candidate_next)}};
  out["unmatched"] = Json{{"baseline", json_integer(parting.unmatched_baseline)},
                          {"candidate", json_integer(parting.unmatched_candidate)}};
  out["rejoined"] = parting.rejoined;
  out["decision"] = json_decision(parting.decision);
  out["after"] = parting.last_common_baseline
                     ? Json{{"operator", json_text(operator_name(parting.last_common))},
                            {"module", json_text(module_path(parting.last_common))},
                            {"source", json_source(parting.last_common)}}
                     : Json(nullptr);
  return out;
}

Json json_ranks(const Report& report) {
  Json out = Json::array();
  if (report.ranks.size() < 2) return out;
  for (const std::uint32_t rank : report.ranks) {
    const auto found =
        std::ranges::lower_bound(report.rank_divergences, rank, {}, &RankDivergence::rank);
    Json first = nullptr;
    if (found != report.rank_divergences.end() && found->rank == rank) {
      first = {{"in", found->in_baseline ? "baseline" : "candidate"},
               {"op_index", json_integer(found->op_index)},
               {"operator", json_text(operator_name(found->op))},
               {"module", json_text(module_path(found->op))}};
    }
    out.push_back({{"rank", rank}, {"first_divergence", std::move(first)}});
  }
  return out;
}

}  // namespace repro_check::cmd
