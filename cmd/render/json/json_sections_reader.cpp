// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_sections_reader.h"

#include <stdexcept>
#include <string_view>
#include <utility>

#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::GrowthStep;
using comparators::Report;

bool read_side(const Json& json) {
  const std::string side = read_text(json);
  if (side != "baseline" && side != "candidate") {
    throw std::invalid_argument("\"" + side + "\" is no side");
  }
  return side == "baseline";
}

/// @return whether the pointer was one of a tensor
bool read_named_pointer(std::string_view pointer, comparators::NamedTensorDifference& into) {
  using core::NamedTensorKind;
  for (const auto& [prefix, kind] :
       {std::pair(std::string_view("input."), NamedTensorKind::kInput),
        std::pair(std::string_view("parameter."), NamedTensorKind::kParameter),
        std::pair(std::string_view("buffer."), NamedTensorKind::kBuffer)}) {
    if (!pointer.starts_with(prefix)) continue;
    into.kind = kind;
    into.name = pointer.substr(prefix.size());
    return true;
  }
  return false;
}

/// What a run's manifest says of a tensor is its digest alone.
void read_named_digest(const Json& json,
                       const comparators::NamedTensorDifference& tensor,
                       std::size_t run,
                       Report& report) {
  if (json.is_null()) return;
  const auto digest = core::parse_digest(read_text(json));
  if (!digest || run >= report.runs.size()) throw std::invalid_argument("no digest of a run");
  report.runs[run].manifest.named_tensors.push_back(
      {tensor.kind, tensor.name, core::Dtype::kUnknown, {}, *digest});
}

std::optional<GrowthStep> read_step(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return GrowthStep{read_whole(json.at("op_index")),
                    read_text(json.at("operator")),
                    read_text(json.at("module")),
                    read_metric(json.at("in")),
                    read_metric(json.at("out")),
                    read_metric(json.at("factor"))};
}

comparators::Origin read_origin(const Json& json) {
  comparators::Origin origin;
  origin.baseline_index = read_optional_whole(json.at("op_index").at("baseline"));
  origin.candidate_index = read_optional_whole(json.at("op_index").at("candidate"));
  read_names(json.at("operator"), json.at("module"), json.at("source"), origin.record);
  origin.relation = read_enum(json.at("relation"), comparators::Relation::kMissing, relation_name);
  origin.cause = read_enum(json.at("cause"), comparators::kLastCause, comparators::cause_name);
  origin.beyond_policy = json.at("beyond_policy").get<bool>();
  origin.l2_rel = read_metric(json.at("l2_rel"));
  origin.tainted = read_optional_whole(json.at("tainted"));
  origin.outputs_total = read_whole(json.at("final_values").at("total"));
  for (const Json& op : json.at("final_values").at("ops")) {
    origin.outputs.push_back(read_whole(op));
  }
  origin.path_steps = read_whole(json.at("path").at("steps"));
  for (const Json& step : json.at("path").at("items")) origin.path.push_back(*read_step(step));
  return origin;
}

comparators::FlakyOp read_flaky(const Json& json) {
  comparators::FlakyOp op;
  op.index = read_whole(json.at("op_index"));
  read_names(json.at("operator"), json.at("module"), nullptr, op.record);
  for (const Json& count : json.at("counts")) op.counts.push_back(read_whole(count));
  op.disagreement = read_number(json.at("disagreement"));
  op.differs = {read_number(json.at("differs").at("low")),
                read_number(json.at("differs").at("high"))};
  op.l2_rel = read_metric(json.at("l2_rel"));
  op.ulp_max = read_optional_whole(json.at("ulp_max"));
  return op;
}

void read_flaky_operators(const Json& json, comparators::OpRepeatability& into) {
  if (json.is_null()) return;
  into.runs = read_whole(json.at("runs"));
  into.assessed = read_whole(json.at("assessed"));
  into.flaky = read_whole(json.at("flaky"));
  into.not_assessed = read_whole(json.at("not_assessed"));
  for (const Json& each : json.at("items")) into.ops.push_back(read_flaky(each));
  into.notes = read_texts(json.at("notes"));
}

std::vector<baselines::Change> read_changes(const Json& json) {
  std::vector<baselines::Change> changes;
  for (const Json& each : json) {
    changes.push_back(
        {read_text(each.at("name")), read_text(each.at("accepted")), read_text(each.at("now"))});
  }
  return changes;
}

}  // namespace

void read_differences(const Json& json, Report& report) {
  for (const Json& each : json) {
    const std::string pointer = read_text(each.at("pointer"));
    comparators::NamedTensorDifference tensor;
    if (each.contains("samples") && read_named_pointer(pointer, tensor)) {
      tensor.note = read_text(each.at("note"));
      tensor.metrics = read_metrics(each.at("metrics"));
      tensor.samples = read_samples(each.at("samples"));
      read_named_digest(each.at("baseline"), tensor, 0, report);
      read_named_digest(each.at("candidate"), tensor, 1, report);
      report.named_tensors.push_back(std::move(tensor));
    } else {
      report.differences.push_back({pointer,
                                    read_text(each.at("baseline")),
                                    read_text(each.at("candidate")),
                                    each.at("affects_numbers").get<bool>()});
    }
  }
}

void read_alignment(const Json& json, Report& report) {
  comparators::AlignmentSummary& alignment = report.alignment;
  const Json& matched = json.at("matched");
  alignment.by_position = read_text(json.at("mode")) == "strict";
  alignment.position = read_whole(matched.at("position"));
  alignment.lcs = read_whole(matched.at("lcs"));
  alignment.anchor = read_whole(matched.at("anchor"));
  alignment.partial = read_whole(matched.at("partial"));
  alignment.map = read_whole(matched.at("map"));
  alignment.order = read_whole(matched.at("order"));
  alignment.reordered = read_whole(json.at("reordered"));
  alignment.left_out_baseline = read_whole(json.at("left_out").at("baseline"));
  alignment.left_out_candidate = read_whole(json.at("left_out").at("candidate"));
  alignment.gave_up = json.at("gave_up").get<bool>();
  alignment.work = read_whole(json.at("work"));
  alignment.work_limit = read_whole(json.at("work_limit"));
  const Json& map = json.at("name_map");
  if (map.is_null()) return;
  report.name_map.file = read_text(map.at("file"));
  for (const Json& entry : map.at("entries")) {
    report.name_map.entries.push_back({read_whole(entry.at("line")),
                                       read_text(entry.at("kind")),
                                       read_text(entry.at("pattern")),
                                       read_text(entry.at("replacement")),
                                       read_whole(entry.at("operators")),
                                       read_whole(entry.at("tensors"))});
  }
}

void read_control_flow(const Json& json, Report& report) {
  if (json.is_null()) return;
  comparators::ControlFlow& parting = report.control_flow.emplace();
  parting.last_common_baseline = read_optional_whole(json.at("last_common").at("baseline"));
  parting.last_common_candidate = read_optional_whole(json.at("last_common").at("candidate"));
  parting.baseline_next = read_text(json.at("next").at("baseline"));
  parting.candidate_next = read_text(json.at("next").at("candidate"));
  parting.unmatched_baseline = read_whole(json.at("unmatched").at("baseline"));
  parting.unmatched_candidate = read_whole(json.at("unmatched").at("candidate"));
  parting.rejoined = json.at("rejoined").get<bool>();
  if (const Json& after = json.at("after"); !after.is_null()) {
    read_names(after.at("operator"), after.at("module"), after.at("source"), parting.last_common);
  }
  const Json& decision = json.at("decision");
  if (decision.is_null()) return;
  comparators::Decision& decided = parting.decision.emplace();
  decided.baseline_index = read_whole(decision.at("op_index").at("baseline"));
  decided.candidate_index = read_whole(decision.at("op_index").at("candidate"));
  read_names(decision.at("operator"), decision.at("module"), decision.at("source"), decided.op);
  decided.baseline = read_text(decision.at("value").at("baseline"));
  decided.candidate = read_text(decision.at("value").at("candidate"));
}

void read_ranks(const Json& json, Report& report) {
  for (const Json& each : json) {
    const auto rank = static_cast<std::uint32_t>(read_whole(each.at("rank")));
    report.ranks.push_back(rank);
    const Json& first = each.at("first_divergence");
    if (first.is_null()) continue;
    comparators::RankDivergence divergence;
    divergence.rank = rank;
    divergence.in_baseline = read_side(first.at("in"));
    divergence.op_index = read_whole(first.at("op_index"));
    read_names(first.at("operator"), first.at("module"), nullptr, divergence.op);
    report.rank_divergences.push_back(std::move(divergence));
  }
}

void read_spread(const Json& origins, const Json& json, Report& report) {
  for (const Json& origin : origins) report.origins.push_back(read_origin(origin));
  report.origins_total = read_whole(json.at("origins"));
  report.final_values = read_whole(json.at("final_values"));
  comparators::Growth& growth = report.growth;
  growth.first = read_step(json.at("first"));
  growth.last = read_step(json.at("last"));
  growth.ratio = read_metric(json.at("ratio"));
  growth.steepest = read_step(json.at("steepest"));
  growth.amplified = read_whole(json.at("amplified"));
  growth.damped = read_whole(json.at("damped"));
  growth.carried = read_whole(json.at("carried"));
  growth.absorbed = read_whole(json.at("absorbed"));
  growth.steep = read_whole(json.at("steep"));
  growth.exceeded = json.at("exceeded").get<bool>();
}

void read_repeat(const Json& json, Report& report) {
  // Of two runs that agree the JSON says what follows from that.
  if (json.is_null() || json.at("runs").size() <= 2) return;
  comparators::RepeatSummary& repeat = report.repeat.emplace();
  for (const Json& run : json.at("runs")) {
    repeat.runs.push_back({read_text(run.at("name")),
                           read_text(run.at("dump")),
                           read_text(run.at("status")),
                           read_optional_whole(run.at("first_divergence"))});
  }
  repeat.judged = read_whole(json.at("judged"));
  repeat.differing = read_whole(json.at("differing"));
  repeat.alike = json.at("alike").get<bool>();
  read_flaky_operators(json.at("operators"), repeat.ops);
}

void read_replay(const Json& json, Report& report) {
  if (json.is_null()) return;
  comparators::ReplayEvidence& evidence = report.replay.emplace();
  evidence.baseline_op = read_optional_whole(json.at("op_index").at("baseline"));
  evidence.candidate_op = read_optional_whole(json.at("op_index").at("candidate"));
  evidence.problem = read_text(json.at("problem"));
  evidence.same_inputs = json.at("same_inputs").get<bool>();
  for (const Json& each : json.at("settings")) {
    comparators::ReplayEvidence::Setting setting;
    setting.of_baseline = read_side(each.at("run"));
    setting.isa = read_text(each.at("isa"));
    setting.cpu_capability = read_text(each.at("cpu_capability"));
    setting.threads = read_whole(each.at("threads"));
    setting.calls = read_whole(each.at("calls"));
    for (const Json& result : each.at("results")) {
      const auto digest = core::parse_digest(read_text(result));
      if (!digest) throw std::invalid_argument("no digest of a result");
      setting.results.push_back(*digest);
    }
    if (const Json& is = each.at("as_recorded"); !is.is_null())
      setting.as_recorded = is.get<bool>();
    evidence.settings.push_back(std::move(setting));
  }
  const Json& reference = json.at("float64");
  evidence.baseline_rmse = read_metric(reference.at("baseline_rmse"));
  evidence.candidate_rmse = read_metric(reference.at("candidate_rmse"));
  if (const Json& nearer = reference.at("nearer"); !nearer.is_null()) {
    const std::string side = read_text(nearer);
    evidence.reference_ratio = side == "neither" ? 1.0 : side == "candidate" ? 2.0 : 0.5;
  }
  evidence.sentences = read_texts(json.at("sentences"));
}

void read_observer(const Json& json, Report& report) {
  using Outcome = comparators::ObserverFinding::Outcome;
  for (const Json& each : json) {
    const std::string outcome = read_text(each.at("outcome"));
    report.observer.push_back({read_text(each.at("run")),
                               outcome == "changed"     ? Outcome::kChanged
                               : outcome == "unchanged" ? Outcome::kUnchanged
                                                        : Outcome::kNotJudged,
                               read_whole(each.at("outputs")),
                               read_text(each.at("level")),
                               read_text(each.at("output")),
                               read_text(each.at("detail"))});
  }
}

GateOutcome read_gate(const Json& gate, const Json& expected) {
  GateOutcome outcome;
  outcome.gate = read_text(gate.at("name"));
  outcome.config = read_text(gate.at("config"));
  outcome.runs = read_whole(gate.at("runs"));
  outcome.runs_agree = gate.at("runs_agree").get<bool>();
  outcome.key = read_text(gate.at("platform_key"));
  const Json& baseline = gate.at("baseline");
  outcome.baseline = read_enum(baseline.at("state"), BaselineState::kNoKey, state_name);
  outcome.file = read_text(baseline.at("file"));
  outcome.changes = read_changes(baseline.at("changes"));
  outcome.summary = read_text(baseline.at("summary"));
  outcome.nearest = read_text(baseline.at("nearest"));
  outcome.nearest_changes = read_changes(baseline.at("nearest_changes"));
  outcome.pending = read_text(gate.at("pending"));
  outcome.refusal = read_text(gate.at("refusal"));
  outcome.orphans = read_texts(gate.at("orphans"));
  outcome.notes = read_texts(gate.at("notes"));
  outcome.attempt = read_text(gate.at("attempt"));
  for (const Json& each : expected) {
    comparators::ExpectedOutcome entry;
    entry.match = read_text(each.at("match"));
    entry.reason = read_text(each.at("reason"));
    entry.issue = read_text(each.at("issue"));
    entry.owner = read_text(each.at("owner"));
    entry.expires = read_text(each.at("expires"));
    entry.what = read_enum(
        each.at("outcome"), comparators::ExpectedOutcome::What::kElsewhere, expected_name);
    entry.operators = read_whole(each.at("operators"));
    entry.detail = read_text(each.at("detail"));
    for (const Json& op : each.at("found")) entry.found.push_back(read_found_op(op));
    outcome.expected.push_back(std::move(entry));
  }
  return outcome;
}

}  // namespace repro_check::cmd
